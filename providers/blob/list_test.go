package bloblease

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// A dot at the end of a name is encoded differently from a dot within it, and a prefix
// that ends with a dot finds both.
func TestBlobListPrefixThatEndsWithADot(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, name := range []string{"v1.", "v1..", "v1.2", "v1", "v12", "v1-", "."} {
		b.acquire(name, "a")
	}
	for prefix, want := range map[string][]string{
		"v1.": {"v1.", "v1..", "v1.2"}, "v1..": {"v1.."}, ".": {"."}, "v1.2": {"v1.2"},
		"v1": {"v1", "v1-", "v1.", "v1..", "v1.2", "v12"},
	} {
		page, err := b.List(t.Context(), abstractions.ListRequest{Prefix: prefix})
		require.NoError(t, err)
		var got []string
		for _, r := range page.Records {
			got = append(got, r.Name)
		}
		require.ElementsMatch(t, want, got, prefix)
	}
}

// List skips a copy of a lease's blob under another name.
func TestBlobListLeavesCopiesOut(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.acquire("n", "a")
	metadata, err := encode("a", []byte(b.view("n").record), nil)
	require.NoError(t, err)
	b.upload("copy", "", map[string]string{metadataName: *metadata[metadataName]})
	page, err := b.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	require.Len(t, page.Records, 1)
	require.Equal(t, abstractions.FingerprintOf("a"), page.Records[0].Fingerprint)
	require.True(t, page.Records[0].Held)
}
