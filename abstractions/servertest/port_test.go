//go:build linux

package servertest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A killed server keeps its port. Otherwise a server of another package's tests could get that port
// and be mistaken for the killed server.
func TestPortBelongsToTheProcessThatGotIt(t *testing.T) {
	port, err := FreePort(t.Context())
	require.NoError(t, err)
	require.True(t, isFree(t.Context(), port))
	require.False(t, claim(t.Context(), port), "as another process would")
}
