package bloblease

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// overwrites puts content into a name's blob under its lease, without its metadata:
// the record is gone.
func (b *bed) overwrites(g abstractions.Grant, content string) {
	b.t.Helper()
	_, err := b.admin.NewBlockBlobClient(b.blobName(g.Name)).UploadBuffer(b.t.Context(), []byte(content), &blockblob.UploadBufferOptions{
		Metadata:         map[string]*string{"their": to.Ptr("entry")},
		AccessConditions: &blob.AccessConditions{LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: to.Ptr(leaseID(g.ID))}},
	})
	require.NoError(b.t, err)
}

func (b *bed) properties(name string) blob.GetPropertiesResponse {
	b.t.Helper()
	answer, err := b.admin.NewBlobClient(b.blobName(name)).GetProperties(b.t.Context(), nil)
	require.NoError(b.t, err)
	return answer
}

// T46, T16: a holder writes content into the blob of its lease, and the record is gone.
// The lease can be ended all the same, also an infinite one, and what was written
// stays as it is.
func TestTrap_T46_BlobLeaseOfAnOverwrittenBlobCanBeEnded(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"content", ""} {
		for _, ttl := range []time.Duration{maxTTL, abstractions.Infinite} {
			for what, end := range map[string]func(b *bed, g abstractions.Grant) error{
				"release": func(b *bed, g abstractions.Grant) error { return b.Release(t.Context(), endOf(g)) },
				"release by ID": func(b *bed, g abstractions.Grant) error {
					return b.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: g.ID})
				},
				"break at once": func(b *bed, _ abstractions.Grant) error {
					r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
					require.True(t, err != nil || r.WasHeld)
					return err
				},
			} {
				b := newBed(t)
				req := wish("n", abstractions.NewID())
				req.TTL = ttl
				g, err := b.Acquire(t.Context(), req)
				require.NoError(t, err)
				b.overwrites(g, content)
				before := b.properties("n")
				require.Equal(t, lease.StateTypeLeased, *before.LeaseState)
				require.NoError(t, end(b, g), "%s %v %q", what, ttl, content)
				after := b.properties("n")
				require.Equal(t, lease.StatusTypeUnlocked, *after.LeaseStatus)
				if _, err = b.try("n", "b"); content == "" {
					require.NoError(t, err, "an empty blob is taken for a name that was never seen")
					continue
				}
				require.Equal(t, before.ETag, after.ETag, "nothing was written")
				require.Equal(t, content, b.content("n"))
				require.ErrorIs(t, err, abstractions.ErrNotSetUp, "it is left alone")
			}
		}
	}
}

// Another program leases the blob of a name that has only ever refused an ID.
func TestBlobBreakOfAnothersLeaseWhereNobodyEverHadTheName(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.giveUp("n", "never")
	client, err := lease.NewBlobClient(b.admin.NewBlobClient(b.blobName("n")), nil)
	require.NoError(t, err)
	_, err = client.AcquireLease(t.Context(), -1, nil)
	require.NoError(t, err)
	r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	require.Equal(t, abstractions.BreakResult{WasHeld: true}, r)
	b.take("n", "b")
}

// T46: what is leased by others is left to them by Release, and by a Break that names a
// token, which nothing there confirms.
func TestTrap_T46_BlobLeaseOfOthersOnTheirOwnBlob(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.upload("n", "theirs", nil)
	client, err := lease.NewBlobClient(b.admin.NewBlobClient(b.blobName("n")), nil)
	require.NoError(t, err)
	_, err = client.AcquireLease(t.Context(), 60, nil)
	require.NoError(t, err)
	require.ErrorIs(t, b.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}), abstractions.ErrNotSetUp)
	_, err = b.Break(t.Context(), abstractions.BreakRequest{Name: "n", IfToken: 1, Immediate: true})
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	_, err = b.try("n", "a")
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.Equal(t, lease.StateTypeLeased, *b.properties("n").LeaseState)
}
