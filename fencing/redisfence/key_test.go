package redisfence_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing/redisfence"
)

// slotPart is the rule of the Redis Cluster specification, "Hash tags", stated
// differently from the code: from the first "{" to the first "}" after it,
// unless the tag would be empty.
func slotPart(key string) string {
	if m := regexp.MustCompile(`(?s)^[^{]*\{([^}]+)\}`).FindStringSubmatch(key); m != nil {
		return m[1]
	}
	return key
}

func TestRedisFenceKeyKeepsTheSlot(t *testing.T) {
	for key, want := range map[string]string{
		"report":     "fence:{report}:report",
		"{user7}:in": "fence:{user7}:{user7}:in",
		"in:{user7}": "fence:{user7}:in:{user7}",
		"a{b":        "fence:{a{b}:a{b",
		"{{a}}":      "fence:{{a}:{{a}}",
	} {
		fence, err := redisfence.Key(key)
		require.NoError(t, err)
		require.Equal(t, want, fence)
		require.Equal(t, slotPart(key), slotPart(fence))
	}
	for _, key := range []string{"", "}", "a}b", "{}", "foo{}bar", "foo{}{bar}"} {
		_, err := redisfence.Key(key)
		require.ErrorIs(t, err, leasing.ErrInvalid, "%q", key)
	}
}

func TestTrap_T25_TwoKeysNeverShareAFence(t *testing.T) {
	key := rapid.StringOfN(rapid.RuneFrom([]rune("ab{}:")), 1, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		one, two := key.Draw(t, "one"), key.Draw(t, "two")
		first, err := redisfence.Key(one)
		if err != nil {
			t.Skip()
		}
		if slotPart(first) != slotPart(one) {
			t.Fatalf("%q and its fence %q are in two slots", one, first)
		}
		if second, err := redisfence.Key(two); err == nil && one != two && first == second {
			t.Fatalf("%q and %q share %q", one, two, first)
		}
	})
	plain, err := redisfence.Key("a")
	require.NoError(t, err)
	tagged, err := redisfence.Key("{a}")
	require.NoError(t, err)
	require.NotEqual(t, plain, tagged)
}
