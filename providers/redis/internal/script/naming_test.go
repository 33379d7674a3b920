package script

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

// T25: different names have different keys, and no key of one name is a key of another.
func TestTrap_T25_KeysDistinguishNames(t *testing.T) {
	n := Naming{Prefix: "leasing"}
	owner := map[string]string{n.Marker(): "the marker", n.Channel("x"): "a channel"}
	for _, name := range hostileNames {
		k := n.Keys(name)
		for _, key := range []string{k.Name, k.Queue} {
			other, taken := owner[key]
			require.False(t, taken, "%q is of %q and of %q", key, other, name)
			owner[key] = name
		}
		back, ok := n.Name(k.Name)
		require.True(t, ok, name)
		require.Equal(t, name, back)
		_, ok = n.Name(k.Queue)
		require.False(t, ok, "%q is no name", k.Queue)
	}
}

// Prefixes also keep names apart, even if one prefix begins with the other.
func TestTrap_T25_PrefixesAreApart(t *testing.T) {
	for _, name := range hostileNames {
		for _, prefix := range []string{"l", "lea", "leasing:", "leasing:x", "Leasing"} {
			other := Naming{Prefix: prefix}
			require.NotEqual(t, Naming{Prefix: "leasing"}.Keys(name).Name, other.Keys(name).Name)
			_, ok := Naming{Prefix: "leasing"}.Name(other.Keys(name).Name)
			require.False(t, ok)
		}
	}
}

func FuzzTrap_T25_Keys(f *testing.F) {
	for i, name := range hostileNames {
		f.Add(name, hostileNames[(i+1)%len(hostileNames)])
	}
	n := Naming{Prefix: "leasing"}
	f.Fuzz(func(t *testing.T, a, b string) {
		ka, kb := n.Keys(a), n.Keys(b)
		require.Equal(t, a == b, ka.Name == kb.Name)
		require.Equal(t, a == b, ka.Queue == kb.Queue)
		require.NotEqual(t, ka.Name, kb.Queue)
		back, ok := n.Name(ka.Name)
		require.True(t, ok)
		require.Equal(t, a, back)
		if a != "" {
			require.Equal(t, slot(ka.Name), slot(ka.Queue))
		}
		match := strings.TrimSuffix(n.Pattern(a), "*}")
		require.Equal(t, strings.HasPrefix(b, a), strings.HasPrefix(globber.Replace(kb.Name), match), "a pattern is of the names that begin so")
	})
}

// All keys of a name are on one server of a Cluster, by the servers' own calculation.
func TestKeysOfANameShareASlotOnACluster(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t, 3).Client(t)
	n := Naming{Prefix: "leasing"}
	slots := map[int64]bool{}
	for _, name := range hostileNames {
		k := n.Keys(name)
		for _, key := range []string{k.Name, k.Queue} {
			got, err := client.ClusterKeySlot(t.Context(), key).Result()
			require.NoError(t, err)
			require.Equal(t, slot(k.Name), got, key)
			slots[got] = true
		}
	}
	require.Greater(t, len(slots), len(hostileNames)/2, "and names are spread")
}

// slot returns a key's slot by the cluster specification: CRC16/XMODEM of the hash
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

// A pattern matches a prefix literally, whatever its characters.
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
		n := Naming{Prefix: prefix}
		for name := range names {
			require.NoError(t, client.MSet(t.Context(), n.Keys(name).Name, 1, n.Keys(name).Queue, 1).Err())
		}
	}
	for _, prefix := range []string{"leasing", "lea*", "[l]", `l\?`, "l^"} {
		n := Naming{Prefix: prefix}
		for range 60 {
			begin := word()
			var want []string
			for name := range names {
				if strings.HasPrefix(name, begin) {
					want = append(want, n.Keys(name).Name)
				}
			}
			got, err := client.Keys(t.Context(), n.Pattern(begin)).Result()
			require.NoError(t, err)
			require.ElementsMatch(t, want, got, "%q", begin)
		}
	}
}
