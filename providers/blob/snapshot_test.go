package bloblease

import (
	"net/http"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/stretchr/testify/require"
)

// T28: a blob that somebody keeps, by a snapshot, is left alone, and the others are
// swept all the same.
func TestTrap_T28_BlobSweepGoesOnAfterASnapshot(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, name := range []string{"a", "b", "c"} {
		b.giveUp(name, abstractions.NewID())
	}
	_, err := b.admin.NewBlobClient(b.blobName("a")).CreateSnapshot(t.Context(), nil)
	require.NoError(t, err)
	b.watch.ages(providerkit.DefaultRetention + time.Minute)
	r, err := b.Sweep(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, SweepResult{Seen: 3, Deleted: 2}, r)
}

// What is wrong with the account ends a sweep.
func TestBlobSweepThatIsDenied(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.giveUp("a", "x")
	b.watch.ages(providerkit.DefaultRetention + time.Minute)
	b.watch.set(func(_ verb, r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete {
			return answering(r, http.StatusForbidden, "x-ms-error-code", "AuthorizationPermissionMismatch"), nil
		}
		return nil, nil
	}, nil)
	_, err := b.Sweep(t.Context(), "")
	require.ErrorIs(t, err, abstractions.ErrDenied)
}
