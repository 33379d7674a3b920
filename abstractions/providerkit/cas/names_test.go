package cas

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNamesAsDocumented(t *testing.T) {
	plain, slash := Naming{Max: 200}, Naming{Prefix: "p/", Slash: ':', Max: 200}
	for name, want := range map[string][2]string{
		"jobs/daily report": {"jobs~2Fdaily~20report", "jobs:daily~20report"},
		"My-Lock_1.x":       {"My-Lock_1.x", "My-Lock_1.x"},
		".":                 {"~2E", "~2E"},
		"..":                {"~2E~2E", "~2E~2E"},
		".a.":               {"~2Ea~2E", "~2Ea~2E"},
		"~":                 {"~7E", "~7E"},
		":":                 {"~3A", "~3A"},
		"é{}":               {"~C3~A9~7B~7D", "~C3~A9~7B~7D"},
	} {
		require.Equal(t, want[0], plain.Encode(name))
		require.Equal(t, "p/"+want[1], slash.Encode(name))
	}
	long := strings.Repeat("é", 200)
	stored := plain.Encode(long)
	require.LessOrEqual(t, len(stored), 200)
	require.Regexp(t, `^(~C3~A9)*(~C3)?~~[0-9a-f]{64}$`, stored)
}

// T25: two names are never encoded alike, and the result has only characters that a
// store accepts.
func TestTrap_T25_NamesAreInjective(t *testing.T) {
	name := rapid.OneOf(rapid.StringN(1, 120, 512), rapid.StringMatching(`[aA./~:2E]{1,12}`), rapid.StringMatching(`[a./~é]{90,400}`))
	rapid.Check(t, func(t *rapid.T) {
		n := Naming{Prefix: rapid.SampledFrom([]string{"", "p/"}).Draw(t, "prefix"), Slash: rapid.SampledFrom([]byte{0, ':'}).Draw(t, "slash"), Max: 120}
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		checkNames(t, n, a, b)
	})
}

func checkNames(t require.TestingT, n Naming, a, b string) {
	stored := n.Encode(a)
	require.Equal(t, a == b, stored == n.Encode(b), "%q, %q", a, b)
	require.LessOrEqual(t, len(stored), len(n.Prefix)+n.Max)
	require.Regexp(t, `^(p/)?(~2E|[A-Za-z0-9_~:-])([A-Za-z0-9._~:-]*[A-Za-z0-9_~:-])?$`, stored)
	for i := range len(a) + 1 {
		require.True(t, strings.HasPrefix(stored, n.EncodePrefix(a[:i])), "%q is listed under %q", a, a[:i])
	}
}

func FuzzNames(f *testing.F) {
	f.Add("jobs/daily", "jobs:daily")
	f.Add(strings.Repeat("a.", 60), strings.Repeat("a.", 61))
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			t.Skip("no names")
		}
		checkNames(t, Naming{Slash: ':', Max: 120}, a, b)
		checkNames(t, Naming{Prefix: "p/", Max: 120}, a, b)
	})
}
