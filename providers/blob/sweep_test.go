package bloblease

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/recordstest"
	"github.com/stretchr/testify/require"
)

// T28: names that were used once don't accumulate, and nothing else is deleted.
func TestTrap_T28_BlobSweep(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var last int64
	for i := range 4 {
		name := fmt.Sprint("once", i)
		last = max(last, b.acquire(name, "a").Token)
		b.release(name, "a")
	}
	held := b.acquire("held", "a")
	req := acquireRequest("infinite", "a")
	req.TTL = abstractions.Infinite
	_, err := b.Acquire(t.Context(), req)
	require.NoError(t, err)
	b.acquire("breaking", "a")
	_, err = b.Break(t.Context(), abstractions.BreakRequest{Name: "breaking"})
	require.NoError(t, err)
	b.upload("theirs", "content", nil)
	b.acquire("ours with content", "a")
	b.upload("with other metadata", "", map[string]string{"their": "entry"})
	b.acquire("with other metadata", "a")
	b.release("with other metadata", "a")

	r, err := b.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, r, "nothing is old")
	b.recorder.advanceClock(providerkit.DefaultRetention + time.Minute)
	r, err = b.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, r)
	b.recorder.reset()

	require.NoError(t, b.renew(held))
	require.True(t, b.inspect("infinite").Held)
	require.True(t, b.inspect("breaking").Held)
	require.Equal(t, "content", b.content("theirs"))
	require.Positive(t, b.inspect("with other metadata").Token)
	require.Zero(t, b.inspect("once1").Token)
	require.Greater(t, b.acquire("once1", "b").Token, last, "a token after forgetting")
}

// A name that is claimed between the listing and the delete stays, even if it is
// already released: its record has an ended ID.
func TestTrap_T28_BlobSweepBesideAnAcquire(t *testing.T) {
	t.Parallel()
	for _, release := range []bool{false, true} {
		b := newBed(t)
		b.acquire("n", "a")
		b.release("n", "a")
		b.recorder.count()
		rival, _ := b.process()
		var g abstractions.Grant
		b.recorder.set(func(_ verb, r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete {
				var err error
				g, err = rival.Acquire(t.Context(), acquireRequest("n", "b"))
				require.NoError(t, err)
				if release {
					require.NoError(t, rival.Release(t.Context(), releaseRequest(g)))
				}
			}
			return nil, nil
		}, nil)
		b.recorder.advanceClock(providerkit.DefaultRetention + time.Minute)
		r, err := b.Sweep(t.Context())
		require.NoError(t, err)
		require.Zero(t, r)
		require.Len(t, b.recorder.count(), 4, "one request for the page, two for the floor, and one for the name")
		b.recorder.reset()
		require.Equal(t, g.Token, b.inspect("n").Token)
		require.Equal(t, !release, b.inspect("n").Held)
	}
}

func TestBlobSweepOfManyPages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := b.options
	o.Retention = abstractions.Infinite
	never := opener{o, true}.open(t)
	for i := range 30 {
		b.release(fmt.Sprint("n", i), "a")
	}
	b.recorder.advanceClock(providerkit.DefaultRetention + time.Minute)
	r, err := never.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, r, "Forever")
	r, err = b.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 30, r)
}

// List returns exactly the names under a prefix, page by page, although there are other blobs.
func TestBlobListAmongOthers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.upload("theirs", "content", nil)
	o := b.options
	o.Prefix = "leases/"
	p := opener{o, true}.open(t)
	for i := range 7 {
		_, err := p.Acquire(t.Context(), acquireRequest(fmt.Sprint("n/", i), "a"))
		require.NoError(t, err)
	}
	b.acquire("n/outside", "a")
	page, err := p.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	require.Len(t, page.Records, 7)
	require.Empty(t, page.Next)
	require.Equal(t, "n/0", page.Records[0].Name)
	require.Equal(t, "owner of a", page.Records[0].Owner)
	page, err = b.List(t.Context(), abstractions.ListRequest{Prefix: "n/"})
	require.NoError(t, err)
	require.Len(t, page.Records, 1, "two prefixes, two sets of names")
	b.recorder.answerWith(verbOther, 400, "x-ms-error-code", "OutOfRangeInput")
	_, err = b.List(t.Context(), abstractions.ListRequest{After: "x"})
	require.ErrorIs(t, err, abstractions.ErrInvalid)
	b.recorder.reset()
}

// T28: a blob with a snapshot is kept, and the other blobs are still swept.
func TestTrap_T28_BlobSweepGoesOnAfterASnapshot(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, name := range []string{"a", "b", "c"} {
		b.release(name, abstractions.NewID())
	}
	_, err := b.admin.NewBlobClient(b.blobName("a")).CreateSnapshot(t.Context(), nil)
	require.NoError(t, err)
	b.recorder.advanceClock(providerkit.DefaultRetention + time.Minute)
	r, err := b.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, r)
}

// An error that concerns the whole account ends a sweep.
func TestBlobSweepThatIsDenied(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.release("a", "x")
	b.recorder.advanceClock(providerkit.DefaultRetention + time.Minute)
	b.recorder.set(func(_ verb, r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete {
			return newAnswer(r, http.StatusForbidden, "x-ms-error-code", "AuthorizationPermissionMismatch"), nil
		}
		return nil, nil
	}, nil)
	_, err := b.Sweep(t.Context())
	require.ErrorIs(t, err, abstractions.ErrDenied)
}

// T127: if a token from a clock that was ahead is forgotten, later tokens are still greater.
func TestTrap_T127_TheFloorIsKeptAndObeyed(t *testing.T) {
	t.Parallel()
	p := newBed(t).Provider
	recordstest.Floor(t, p, &p.driver.Records)
}
