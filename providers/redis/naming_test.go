package redislease

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/require"
)

// hostileNames look like each other, like keys, like patterns and like escapes.
var hostileNames = []string{
	"a", "A", "a ", " a", "My Lock", "my-lock", "{a}", "}a{", "a}", "{", "}", "{}", "}{", "a}:fence", "a}:fence{b", "a:fence", "a:queue", "node", "wake:x",
	"%", "%25", "%2525", "%7B", "%7D", "%7b", "{a", "%{", "*", "?", "[a]", "[^a]", "[a-z]", "^a", `\`, `\*`, `\\`, "a*}:fence", "é", "e\u0301", "日本", "\U0010ffff",
}

// T25: different names have different keys, and no key of one is any key of another.
func TestTrap_T25_KeysTellNamesApart(t *testing.T) {
	n := naming{prefix: "leasing"}
	owner := map[string]string{n.node(): "the marker", n.channel("x"): "a channel"}
	for _, name := range hostileNames {
		k := n.keys(name)
		for _, key := range []string{k.name, k.queue} {
			other, taken := owner[key]
			require.False(t, taken, "%q is of %q and of %q", key, other, name)
			owner[key] = name
		}
		back, ok := n.name(k.name)
		require.True(t, ok, name)
		require.Equal(t, name, back)
		_, ok = n.name(k.queue)
		require.False(t, ok, "%q is no name", k.queue)
	}
}

// Prefixes keep names apart as well, also where one begins with the other.
func TestTrap_T25_PrefixesAreApart(t *testing.T) {
	for _, name := range hostileNames {
		for _, prefix := range []string{"l", "lea", "leasing:", "leasing:x", "Leasing"} {
			other := naming{prefix: prefix}
			require.NotEqual(t, naming{prefix: "leasing"}.keys(name).name, other.keys(name).name)
			_, ok := naming{prefix: "leasing"}.name(other.keys(name).name)
			require.False(t, ok)
		}
	}
}

func FuzzTrap_T25_Keys(f *testing.F) {
	for i, name := range hostileNames {
		f.Add(name, hostileNames[(i+1)%len(hostileNames)])
	}
	n := naming{prefix: "leasing"}
	f.Fuzz(func(t *testing.T, a, b string) {
		ka, kb := n.keys(a), n.keys(b)
		require.Equal(t, a == b, ka.name == kb.name)
		require.Equal(t, a == b, ka.queue == kb.queue)
		require.NotEqual(t, ka.name, kb.queue)
		back, ok := n.name(ka.name)
		require.True(t, ok)
		require.Equal(t, a, back)
		if a != "" {
			require.Equal(t, slot(ka.name), slot(ka.queue))
		}
		match := strings.TrimSuffix(n.pattern(a), "*}")
		require.Equal(t, strings.HasPrefix(b, a), strings.HasPrefix(glob(kb.name), match), "a pattern is of the names that begin so")
	})
}

// All keys of a name are on one server of a Cluster, as the servers count.
func TestKeysOfANameShareASlotOnACluster(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t, 3).Client(t)
	n := naming{prefix: "leasing"}
	slots := map[int64]bool{}
	for _, name := range hostileNames {
		k := n.keys(name)
		for _, key := range []string{k.name, k.queue} {
			got, err := client.ClusterKeySlot(t.Context(), key).Result()
			require.NoError(t, err)
			require.Equal(t, slot(k.name), got, key)
			slots[got] = true
		}
	}
	require.Greater(t, len(slots), len(hostileNames)/2, "and names are spread")
}

// slot is a key's, as the cluster specification has it: CRC16/XMODEM of the hash
// tag, modulo 16384.
func slot(key string) int64 {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(rest, "}"); found && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
				continue
			}
			crc <<= 1
		}
	}
	return int64(crc % 16384)
}

// A prefix is taken literally by MATCH, whatever it is made of.
func TestTrap_T25_PatternsMatchWhatBeginsSo(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	random := rand.New(rand.NewPCG(1, 2))
	names := map[string]bool{}
	for _, name := range hostileNames {
		names[name] = true
	}
	const alphabet = `ab*?[]^-\{}%:7BD`
	word := func() string {
		var b strings.Builder
		for range 1 + random.IntN(4) {
			b.WriteByte(alphabet[random.IntN(len(alphabet))])
		}
		return b.String()
	}
	for range 400 {
		names[word()] = true
	}
	for _, prefix := range []string{"leasing", "lea*", "[l]", `l\?`, "l^"} {
		n := naming{prefix: prefix}
		for name := range names {
			require.NoError(t, client.MSet(t.Context(), n.keys(name).name, 1, n.keys(name).queue, 1).Err())
		}
	}
	for _, prefix := range []string{"leasing", "lea*", "[l]", `l\?`, "l^"} {
		n := naming{prefix: prefix}
		for range 60 {
			begin := word()
			var want []string
			for name := range names {
				if strings.HasPrefix(name, begin) {
					want = append(want, n.keys(name).name)
				}
			}
			got, err := client.Keys(t.Context(), n.pattern(begin)).Result()
			require.NoError(t, err)
			require.ElementsMatch(t, want, got, "%q", begin)
		}
	}
}
