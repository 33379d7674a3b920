package cosmoslease

import (
	"net/url"
	"strings"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTrap_T25_NamesAreWrittenAsDocumented(t *testing.T) {
	for name, id := range map[string]string{
		"jobs/daily":  "jobs~2Fdaily",
		"My-Lock_1.0": "My-Lock_1.0",
		"~":           "~7E",
		"..":          "~2E.",
		".":           "~2E",
		"a:b c":       "a~3Ab~20c",
		"é":           "~C3~A9",
		`\?#%"'`:      "~5C~3F~23~25~22~27",
	} {
		require.Equal(t, id, naming{}.id(name))
		require.Equal(t, "team~2Fone:"+id, naming{prefix: "team/one"}.id(name)[:len("team~2Fone:")]+naming{}.id(name))
	}
	require.Equal(t, "p:~2Ex", naming{prefix: "p"}.id(".x"))
	long := strings.Repeat("é", 256)
	require.Len(t, naming{}.id(long), cutID+2+64)
	require.NotEqual(t, naming{}.id(long), naming{}.id(long[:510]+"è"))
}

func drawName(t *rapid.T, label string) string {
	return rapid.StringN(1, -1, abstractions.MaxNameBytes).Filter(func(s string) bool { return abstractions.ValidateName(s) == nil }).Draw(t, label)
}

// No two names share a document, and no ID needs an escape in a URL or breaks a
// rule of the service.
func TestTrap_T25_IDsAreInjectiveAndPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "p", "p:", "~"}).Draw(t, "prefix")
		other := rapid.SampledFrom([]string{"", "p", "p:", "~"}).Draw(t, "other prefix")
		a, b := drawName(t, "a"), drawName(t, "b")
		id := naming{prefix: prefix}.id(a)
		require.LessOrEqual(t, len(id), 1023)
		require.False(t, strings.ContainsAny(id, `/\?#% `))
		require.Equal(t, id, url.PathEscape(id))
		require.NotContains(t, []string{".", ".."}, id)
		require.NotEqual(t, naming{prefix: prefix}.ping(), id)
		if prefix != other || a != b {
			require.NotEqual(t, id, naming{prefix: other}.id(b))
		}
		require.True(t, strings.HasPrefix(id, naming{prefix: prefix}.begin()))
	})
}
