package bloblease

import (
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// upload puts a blob at a name's key.
func (b *bed) upload(name, content string, metadata map[string]string) {
	b.t.Helper()
	_, err := b.admin.NewBlockBlobClient(b.blobName(name)).UploadBuffer(b.t.Context(), []byte(content), &blockblob.UploadBufferOptions{Metadata: pointers(metadata)})
	require.NoError(b.t, err)
}

func (b *bed) content(name string) string {
	b.t.Helper()
	text := make([]byte, 100)
	n, err := b.admin.NewBlobClient(b.blobName(name)).DownloadBuffer(b.t.Context(), text, nil)
	require.NoError(b.t, err)
	return string(text[:n])
}

// T46: every call leaves another program's blob unchanged.
func TestTrap_T46_BlobOfSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.upload("n", "theirs", map[string]string{"their": "entry"})
	before := b.content("n")
	properties, err := b.admin.NewBlobClient(b.blobName("n")).GetProperties(t.Context(), nil)
	require.NoError(t, err)
	b.recorder.count()
	g := abstractions.Grant{Name: "n", ID: "a", Token: 1, TTL: maxTTL}
	for what, call := range everyCall(b.Provider, g) {
		if err := call(t.Context()); what != "list" && what != "ping" && what != "sweep" {
			require.ErrorIs(t, err, abstractions.ErrNotSetUp, what)
			require.NotErrorIs(t, err, abstractions.ErrUnavailable)
			require.ErrorContains(t, err, "Options.Prefix", what)
		}
	}
	after, err := b.admin.NewBlobClient(b.blobName("n")).GetProperties(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, properties.ETag, after.ETag)
	require.Equal(t, before, b.content("n"))
	require.Equal(t, lease.StateTypeAvailable, *after.LeaseState)
}

// T46: another program's blob that appears between the read and the create is not overwritten.
func TestTrap_T46_BlobThatAppearsMeanwhileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.recorder.runBefore(verbCreate, func() { b.upload("n", "theirs", nil) })
	_, err := b.try("n", "a")
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.Equal(t, "theirs", b.content("n"))
}

// A blob that was created in advance is used for the lease of its name. Its other metadata
// stays, and so does content that the holder writes under the lease.
func TestBlobKeepsWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.upload("n", "", map[string]string{"their": "entry"})
	id := abstractions.NewID()
	g := b.acquire("n", id)
	require.Equal(t, map[string]string{"their": "entry"}, othersMetadata(b.view("n")))
	_, err := b.admin.NewBlockBlobClient(b.blobName("n")).UploadBuffer(t.Context(), []byte("content"), &blockblob.UploadBufferOptions{
		Metadata:         metadataOf(t, b, "n"),
		AccessConditions: &blob.AccessConditions{LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: &id}},
	})
	require.NoError(t, err, "the holder writes under its lease")
	require.NoError(t, b.renew(g))
	require.NoError(t, b.Release(t.Context(), releaseRequest(g)))
	b.acquire("n", "b")
	require.Equal(t, map[string]string{"their": "entry"}, othersMetadata(b.view("n")))
	require.Equal(t, "content", b.content("n"))
}

func metadataOf(t testing.TB, b *bed, name string) map[string]*string {
	answer, err := b.admin.NewBlobClient(b.blobName(name)).GetProperties(t.Context(), nil)
	require.NoError(t, err)
	return answer.Metadata
}

// A damaged record, or a record of a later version, makes the call fail with ErrNotSetUp.
func TestBlobRecordThatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, value := range []string{"", "2.abc", "1.!", "1.bm8", "1z.bm8", "1.eyJ0b2tlbiI6LTF9", "1.eyJ0b2tlbiI6OTAwNzE5OTI1NDc0MDk5Mn0"} {
		name := abstractions.NewID()
		b.upload(name, "", map[string]string{"leasing": value})
		_, err := b.try(name, "a")
		require.ErrorIs(t, err, abstractions.ErrNotSetUp, value)
	}
}

// breakInPortal breaks a lease as an operator does in the portal, or with az storage
// blob lease break.
func (b *bed) breakInPortal(name string, period int32) {
	b.t.Helper()
	client, err := lease.NewBlobClient(b.admin.NewBlobClient(b.blobName(name)), nil)
	require.NoError(b.t, err)
	_, err = client.BreakLease(b.t.Context(), &lease.BlobBreakOptions{BreakPeriod: &period})
	require.NoError(b.t, err)
}

func TestBlobLeaseBrokenInThePortal(t *testing.T) {
	t.Parallel()
	for _, period := range []int32{0, 60} {
		b := newBed(t)
		g := b.acquire("n", "a")
		b.breakInPortal("n", period)
		requireLost(t, b.renew(g), abstractions.LostBroken)
		_, err := b.try("n", "a")
		require.ErrorIs(t, err, abstractions.ErrReleased)
		if period > 0 {
			require.True(t, b.inspect("n").Breaking)
			_, err := b.try("n", "b")
			require.ErrorIs(t, err, abstractions.ErrHeld)
			b.release("n", "a")
		}
		require.Greater(t, b.acquire("n", "b").Token, g.Token)
		requireLost(t, b.renew(g), abstractions.LostBroken)
		b.release("n", "b")
		_, err = b.try("n", "a")
		require.ErrorIs(t, err, abstractions.ErrReleased, "and from then on")
	}
}

// A blob that another program has leased counts as held, although its record names no holder.
func TestBlobLeasedByAnotherProgram(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.upload("without record", "", nil)
	b.acquire("released", "a")
	b.release("released", "a")
	for _, name := range []string{"without record", "released"} {
		client, err := lease.NewBlobClient(b.admin.NewBlobClient(b.blobName(name)), nil)
		require.NoError(t, err)
		_, err = client.AcquireLease(t.Context(), 60, nil)
		require.NoError(t, err)
		_, err = b.try(name, "b")
		var held *abstractions.HeldError
		require.ErrorAs(t, err, &held, name)
		require.True(t, held.Holder.Held && held.Holder.Unconfirmed)
		require.True(t, b.inspect(name).Unconfirmed)
		_, err = b.Break(t.Context(), abstractions.BreakRequest{Name: name, IfToken: max(1, b.inspect(name).Token), Immediate: true})
		require.ErrorIs(t, err, abstractions.ErrStale, "that lease has no token")
		r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: name})
		require.NoError(t, err)
		require.True(t, r.WasHeld)
		require.Positive(t, r.Remaining)
		r, err = b.Break(t.Context(), abstractions.BreakRequest{Name: name, Immediate: true})
		require.NoError(t, err)
		require.True(t, r.WasHeld)
		b.acquire(name, "b")
	}
}

// The read shows the lease as free, but the acquire is refused: the service has not freed
// the expired lease yet, or another program has just leased the blob.
func TestBlobLeaseThatIsTakenAlthoughItLookedFree(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.recorder.answerWith(verbAcquire, 409, "x-ms-error-code", "LeaseAlreadyPresent")
	_, err := b.try("n", "a")
	var held *abstractions.HeldError
	require.ErrorAs(t, err, &held)
	require.True(t, held.Holder.Unconfirmed)
	b.recorder.reset()
	token := b.inspect("n").Token
	require.Equal(t, token, b.acquire("n", "a").Token, "its own claim all the same")
}

// Metadata that does not fit into a blob's metadata is reported as invalid before any write.
func TestBlobMetadataIsBounded(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	req := acquireRequest(strings.Repeat("é", 256), strings.Repeat("Z", 64))
	req.Owner = strings.Repeat("\u20ac", 85)
	for what, metadata := range map[string]map[string]string{
		"quotes": {"k": strings.Repeat(`"`, 4000)}, "control characters": {"k": strings.Repeat("\x01\x02\x03\t", 1000)},
		"letters": {"k": strings.Repeat("é", 2000)}, "keys": manyKeys(),
	} {
		req.Metadata = metadata
		req.ID = strings.Repeat("Z", 50) + abstractions.NewID()[:8]
		g, err := b.Acquire(t.Context(), req)
		require.NoError(t, err, what)
		require.Equal(t, metadata, b.inspect(req.Name).Metadata, what)
		require.NoError(t, b.Release(t.Context(), releaseRequest(g)))
	}
	b.upload("full", "", map[string]string{"their": strings.Repeat("x", 7000)})
	b.recorder.count()
	req = acquireRequest("full", "a")
	req.Metadata = map[string]string{"k": strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", 100)[:2000] + randomText(1500)}
	_, err := b.Acquire(t.Context(), req)
	var invalid *abstractions.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "Metadata", invalid.Field)
	require.Equal(t, []verb{verbRead, verbRead}, b.recorder.count()) // the record, and the floor of forgotten tokens
}

func manyKeys() map[string]string {
	all := map[string]string{}
	for i := range 1300 {
		all[string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676))] = ""
	}
	return all
}

func randomText(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(abstractions.NewID())
	}
	return b.String()[:n]
}

// overwrite replaces the content and the metadata of a name's blob, under the blob's lease.
// This erases the record.
func (b *bed) overwrite(g abstractions.Grant, content string) {
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

// T46, T16: a holder overwrites the blob of its lease, which erases the record.
// The lease can still be ended, even if it is infinite, and the content stays.
func TestTrap_T46_BlobLeaseOfAnOverwrittenBlobCanBeEnded(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"content", ""} {
		for _, ttl := range []time.Duration{maxTTL, abstractions.Infinite} {
			for what, end := range map[string]func(b *bed, g abstractions.Grant) error{
				"release": func(b *bed, g abstractions.Grant) error { return b.Release(t.Context(), releaseRequest(g)) },
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
				req := acquireRequest("n", abstractions.NewID())
				req.TTL = ttl
				g, err := b.Acquire(t.Context(), req)
				require.NoError(t, err)
				b.overwrite(g, content)
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

// Break ends another program's lease on the blob of a name that was never held: the name's
// record contains only a refused ID.
func TestBlobBreakOfAnothersLeaseWhereNobodyEverHadTheName(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.release("n", "never")
	client, err := lease.NewBlobClient(b.admin.NewBlobClient(b.blobName("n")), nil)
	require.NoError(t, err)
	_, err = client.AcquireLease(t.Context(), -1, nil)
	require.NoError(t, err)
	r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	require.Equal(t, abstractions.BreakResult{WasHeld: true}, r)
	b.acquire("n", "b")
}

// T46: Release keeps the lease of another program, and so does a Break with a token,
// since no record confirms the token.
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

// T46: an empty blob that represents a folder counts as another program's.
func TestTrap_T46_BlobFolderIsNotLeased(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, mark := range map[string]map[string]string{
		"jobs": {"hdi_isfolder": "true"}, "Jobs": {"Hdi_isfolder": "True"},
	} {
		b.upload(name, "", mark)
		before := b.properties(name)
		for _, what := range []string{"acquire", "renew", "release", "break", "inspect"} {
			err := everyCall(b.Provider, abstractions.Grant{Name: name, ID: "a", Token: 1, TTL: maxTTL})[what](t.Context())
			require.ErrorIs(t, err, abstractions.ErrNotSetUp, what)
			require.ErrorContains(t, err, "folder", what)
		}
		after := b.properties(name)
		require.Equal(t, before.ETag, after.ETag)
		require.Equal(t, lease.StateTypeAvailable, *after.LeaseState)
	}
	b.upload("no folder", "", map[string]string{"hdi_isfolder": "false"})
	b.acquire("no folder", "a")
}
