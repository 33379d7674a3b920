package bloblease

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/stretchr/testify/require"
)

var (
	names  = cas.Naming{Slash: ':', Max: maxBlobName}
	naming = cas.Naming{Prefix: "p/", Slash: ':', Max: maxBlobName}
)

func TestBlobNames(t *testing.T) {
	for name, want := range map[string]string{
		"jobs/daily-maintenance":      "jobs:daily-maintenance",
		"jobs/daily report":           "jobs:daily~20report",
		"My Lock":                     "My~20Lock",
		"my-lock":                     "my-lock",
		"a:b":                         "a~3Ab",
		"~":                           "~7E",
		"a~2E":                        "a~7E2E",
		"a.":                          "a~2E",
		".":                           "~2E",
		"..":                          "~2E~2E",
		"a.b":                         "a.b",
		"../x":                        "~2E.:x",
		"//":                          "::",
		"é":                           "~C3~A9",
		`a\b`:                         "a~5Cb",
		"a%2Fb":                       "a~252Fb",
		"a?b#c":                       "a~3Fb~23c",
		strings.Repeat("a", 512):      strings.Repeat("a", 512),
		strings.Repeat("/", 512):      strings.Repeat(":", 512),
		"\ufffe" + "\U0010ffff" + "x": "~EF~BF~BE~F4~8F~BF~BFx",
	} {
		require.Equal(t, want, names.Encode(name))
	}
}

func TestTrap_T25_BlobLongNamesStayDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{"é", "%", "🔒", " ", "x%"} {
		for _, end := range []string{"", "a", "b", "."} {
			name := strings.Repeat(text, (512-1)/len(text)) + end
			encoded := names.Encode(name)
			require.LessOrEqual(t, len(encoded)+200, 1024)
			require.Empty(t, seen[encoded], name)
			seen[encoded] = name
			for _, n := range []int{1, 50, 199, 200, 201, 205, 300, len(name)} {
				if prefix := name[:min(n, len(name))]; utf8.ValidString(prefix) {
					require.True(t, strings.HasPrefix(encoded, names.EncodePrefix(prefix)), "%d of %q", n, text)
				}
			}
		}
	}
}

// T25: names and blobs correspond one to one, and a prefix of a name becomes a
// prefix of its key.
func FuzzTrap_T25_BlobNames(f *testing.F) {
	for _, seed := range []string{"jobs/daily", "a.", "..", "~", "é", "a%2Fb", strings.Repeat("é", 256), strings.Repeat("%", 201)} {
		f.Add(seed, "a", 3)
	}
	f.Fuzz(func(t *testing.T, name, other string, n int) {
		if abstractions.ValidateName(name) != nil {
			return
		}
		encoded := names.Encode(name)
		require.LessOrEqual(t, len(encoded), maxBlobName)
		require.False(t, strings.HasSuffix(encoded, "."))
		require.NotContains(t, encoded, "/")
		if abstractions.ValidateName(other) == nil {
			require.Equal(t, name == other, encoded == names.Encode(other))
		}
		require.Equal(t, "p/"+encoded, naming.Encode(name))
		if n >= 0 && n <= len(name) {
			require.True(t, strings.HasPrefix("p/"+encoded, naming.EncodePrefix(name[:n])) || n == len(name) && strings.HasSuffix(name, "."))
		}
	})
}

func TestBlobLeaseIDs(t *testing.T) {
	id := abstractions.NewID()
	require.Equal(t, id, leaseID(id), "the lease ID is the claim's, so that the holder can write under it")
	seen := map[string]bool{}
	for _, odd := range []string{strings.ToUpper(id), "a", "b", "A", id[:35], id + "0", strings.ReplaceAll(id, "-", "") + "-", strings.Repeat("Z9-", 21)} {
		other := leaseID(odd)
		require.Regexp(t, guid, other)
		require.Equal(t, other, leaseID(odd))
		require.Equal(t, byte('8'), other[14])
		require.False(t, seen[other])
		seen[other] = true
	}
}
