package cas

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// takes lets a new holder acquire the name, as a provider does, and returns the token.
func (c *tokenClock) takes(stored int64, date, local time.Time) int64 {
	r := providerkit.Record{Name: "n", Token: stored, Now: date, Floor: c.Floor(date, local)}
	r.Acquire(acquire("mine", time.Minute))
	c.Given(r.Token, date)
	return r.Token
}

func TestTokensOfOneProcessRiseWithinTheServicesSecond(t *testing.T) {
	for name, local := range map[string]time.Time{
		"the same": noon, "behind": noon.Add(-time.Hour), "ahead": noon.Add(time.Hour), "within": noon.Add(999_999 * time.Microsecond),
	} {
		var c tokenClock
		var last int64
		for i := range 1000 {
			stored := int64(0)
			if i%3 == 0 { // the record exists this time, and is deleted the next time
				stored = last
			}
			token := c.takes(stored, noon, local)
			require.Greater(t, token, last, name)
			require.Less(t, token, noon.Add(2*time.Second).UnixMicro(), name)
			require.GreaterOrEqual(t, token, noon.UnixMicro(), name)
			last = token
		}
	}
}

func TestTokensBesideTheServicesSecond(t *testing.T) {
	var c tokenClock
	require.Equal(t, noon.UnixMicro()+225_000, c.takes(7, noon, noon.Add(250*time.Millisecond)), "the part of the second is ours")
	future := noon.Add(time.Hour).UnixMicro()
	require.Equal(t, future+1, c.takes(future, noon, noon))
	other := c.takes(0, noon, noon)
	require.Greater(t, other, noon.UnixMicro()+225_000)
	require.Less(t, other, noon.Add(time.Second).UnixMicro(), "one of the future says nothing of other names")
	next := noon.Add(time.Minute)
	require.Equal(t, next.UnixMicro(), c.takes(0, next, next))
	back := noon.Add(-time.Hour)
	first := c.takes(0, back, back)
	require.Equal(t, back.UnixMicro(), first, "the service's clock went back")
	require.Greater(t, c.takes(0, back, back), first)
}

// Within a second of the service's clock, the tokens of two hosts whose clocks
// agree are in order.
func TestHostsOrderTheirTokensWithinASecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a, b tokenClock
		ahead := time.Duration(rapid.IntRange(0, 900).Draw(t, "ahead")) * time.Millisecond
		later := time.Duration(rapid.IntRange(1, 99).Draw(t, "later")) * time.Millisecond
		first := a.takes(0, noon, noon.Add(ahead))
		require.Greater(t, b.takes(0, noon, noon.Add(ahead+later)), first)
	})
}
