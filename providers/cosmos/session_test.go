package cosmoslease

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

func TestSessionTokensOnlyAdvance(t *testing.T) {
	var s sessions
	require.Nil(t, s.header())
	for _, step := range []struct{ header, first, second string }{
		{"", "", ""}, {"nonsense", "", ""},
		{"0:-1#5", "-1#5", ""}, {"0:-1#4", "-1#5", ""}, {"0:-1#12#3=7", "-1#12#3=7", ""}, {"0:-1#11", "-1#12#3=7", ""},
		{"1:7", "-1#12#3=7", "7"}, {"1:6,0:2#1", "2#1", "7"}, {"1:8", "2#1", "8"},
	} {
		s.add(step.header)
		require.Equal(t, []string{step.first, step.second}, []string{s.tokens["0"], s.tokens["1"]}, step.header)
	}
	require.ElementsMatch(t, []string{"0:2#1", "1:8"}, strings.Split(*s.header(), ","))
	s.drop()
	require.Nil(t, s.header())
	for i := range 10 * maxRanges {
		s.add(fmt.Sprintf("%d:1", i))
	}
	require.LessOrEqual(t, len(s.tokens), maxRanges)
}

// With session consistency, a provider reads its own writes, and the writes of others
// that caused conflicts.
func TestReadsSeeWhatWasWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.account.Before(faultOn(cosmostest.ReadItem, cosmostest.Fault{Stale: true}))
		g := b.acquire("n", "a")
		require.True(t, b.inspect("n").Held)
		g, err := b.renew(g)
		require.NoError(t, err)
		g.State = nil
		_, err = b.renew(g)
		require.NoError(t, err)
		other := b.process()
		_, err = other.Acquire(t.Context(), acquireRequest("n", "b", time.Minute))
		require.Error(t, err)
		b.release(g)
		require.False(t, b.inspect("n").Held)
		next, err := other.Acquire(t.Context(), acquireRequest("n", "c", time.Minute))
		if err != nil { // it has read an earlier version
			next, err = other.Acquire(t.Context(), acquireRequest("n", "c", time.Minute))
		}
		require.NoError(t, err)
		require.Greater(t, next.Token, g.Token)
	})
}

// A session that the service has lost is dropped, and the next call sends no
// session token.
func TestALostSessionIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		b.sessions().add("0:-1#99999") // a token of a region that has failed since
		_, err := b.try("n", "b")
		requireUnknown(t, err)
		require.True(t, b.inspect("n").Held)
		b.release(g)
	})
}

func (b *bed) sessions() *sessions { return &b.driver.store.sessions }
