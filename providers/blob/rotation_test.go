package bloblease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
)

// T122: a lease outlives the files of its identity.
func TestTrap_T122_FilesOfAnIdentityAreReadAgain(t *testing.T) {
	server := startAzurite(t, true)
	authtest.EachFile(t, func(t *testing.T, tokens *authtest.Server, identity auth.Options) {
		tokens.SetLifetime(2 * time.Second)
		p, err := Open(t.Context(), over(t, server, identity))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		providertest.OutlivesRotation(t, p, func() { tokens.RotateInUse(p.Ping) })
	})
}
