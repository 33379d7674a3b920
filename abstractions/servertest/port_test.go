//go:build linux

package servertest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that was killed keeps its port: a server of another package's tests would be
// taken for it.
func TestPortBelongsToTheProcessThatGotIt(t *testing.T) {
	port, err := FreePort(t.Context())
	require.NoError(t, err)
	require.True(t, vacant(t.Context(), port))
	require.False(t, claim(t.Context(), port), "as another process would")
}
