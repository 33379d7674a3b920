package chaos_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
)

func TestTrap_T265_AnInjectedErrorNamesItsClaim(t *testing.T) {
	p, _ := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}})
	req := claim("n", "a")
	_, err := p.Acquire(t.Context(), req)
	renewed, batch := p.RenewBatch(t.Context(), []abstractions.RenewRequest{{Name: "n", ID: "a", Token: 1, TTL: req.TTL}})
	require.NoError(t, batch)
	for _, err := range []error{err, renewed[0].Err, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"})} {
		var failed *abstractions.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, abstractions.FingerprintOf("a"), failed.Fingerprint, "%v", err)
	}
	_, err = p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	var failed *abstractions.Error
	require.ErrorAs(t, err, &failed)
	require.True(t, failed.Fingerprint.IsZero(), "a read has no claim")
}
