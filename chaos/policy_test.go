package chaos

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var mark = map[bool]byte{true: 'x', false: '.'}

// picked returns an x for each of the first n operations that a policy picks, and a dot for the
// rest.
func picked(p Policy, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte(mark[p.counts(i+1)])
	}
	return b.String()
}

func TestPolicyCounts(t *testing.T) {
	for _, test := range []struct {
		policy Policy
		want   string
	}{
		{Policy{}, "xxxxxxxxxxxx"},
		{Policy{Skip: 3}, "...xxxxxxxxx"},
		{Policy{First: 3}, "xxx........."},
		{Policy{Skip: 2, First: 3}, "..xxx......."},
		{Policy{Every: 3}, "..x..x..x..x"},
		{Policy{Skip: 1, Every: 3}, "...x..x..x.."},
		{Policy{Skip: 1, First: 6, Every: 3}, "...x..x....."},
		{Policy{Sequence: "x..x"}, "x..x........"},
		{Policy{Skip: 2, Sequence: "x..x"}, "..x..x......"},
		{Policy{Sequence: "xxxxxx", Every: 2}, ".x.x.x......"},
	} {
		assert.Equal(t, test.want, picked(test.policy, 12), "%+v", test.policy)
	}
}

func TestPolicyWindow(t *testing.T) {
	open := func(p Policy) string {
		var b strings.Builder
		for i := range 12 {
			b.WriteByte(mark[p.open(time.Duration(i))])
		}
		return b.String()
	}
	assert.Equal(t, "xxxxxxxxxxxx", open(Policy{}))
	assert.Equal(t, "...xxxxxxxxx", open(Policy{From: 3}))
	assert.Equal(t, "xxx.........", open(Policy{To: 3}))
	assert.Equal(t, "..xxx.......", open(Policy{From: 2, To: 5}))
	assert.Equal(t, ".xx..xx..xx.", open(Policy{From: 1, To: 3, Repeat: 4}))
	assert.Equal(t, "xxxxxxxxxxxx", open(Policy{To: 3, Repeat: 3}))
}

// TestPolicyIsTheConjunctionOfItsFields: a policy picks an operation if each field alone would pick
// that operation, counted from the first one after Skip.
func TestPolicyIsTheConjunctionOfItsFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Skip: rapid.IntRange(0, 5).Draw(t, "skip"), First: rapid.IntRange(0, 9).Draw(t, "first"), Every: rapid.IntRange(0, 4).Draw(t, "every"),
			Sequence: rapid.StringMatching(`[x.]{0,12}`).Draw(t, "sequence"), Probability: rapid.Float64Range(0, 1).Draw(t, "p"),
		}
		n, luck := rapid.IntRange(1, 20).Draw(t, "n"), rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "luck")
		want := true
		for _, alone := range []Policy{{First: p.First}, {Every: p.Every}, {Sequence: p.Sequence}, {Probability: p.Probability}} {
			want = want && alone.counts(n-p.Skip) && alone.hits(luck)
		}
		require.Equal(t, want, p.counts(n) && p.hits(luck))
	})
}

// TestDiceAreFair: over many operations that differ in one field only, the random numbers are
// uniform and independent.
func TestDiceAreFair(t *testing.T) {
	const n = 5_000
	for what, at := range map[string]func(i int) random{
		"seed":  func(i int) random { return draw(uint64(i), "r", operation{op: OpAcquire, name: "n"}, 1) },
		"rule":  func(i int) random { return draw(1, fmt.Sprint(i), operation{op: OpAcquire, name: "n"}, 1) },
		"name":  func(i int) random { return draw(1, "r", operation{op: OpAcquire, name: fmt.Sprint(i)}, 1) },
		"owner": func(i int) random { return draw(1, "r", operation{op: OpAcquire, owner: fmt.Sprint(i)}, 1) },
		"nth":   func(i int) random { return draw(1, "r", operation{op: OpAcquire, name: "n"}, i) },
	} {
		var happens, jitter, both int
		for i := range n {
			d := at(i)
			require.True(t, d.happens >= 0 && d.happens < 1 && d.jitter >= 0 && d.jitter < 1)
			if d.happens < .1 {
				happens++
			}
			if d.jitter < .1 {
				jitter++
				if d.happens < .1 {
					both++
				}
			}
		}
		// Five standard deviations. The seeds are fixed, so the result never changes.
		assert.InDelta(t, .1*n, happens, 5*math.Sqrt(.09*n), what)
		assert.InDelta(t, .1*n, jitter, 5*math.Sqrt(.09*n), what)
		assert.InDelta(t, .01*n, both, 5*math.Sqrt(.01*n), what)
	}
}

func TestDiceKnowFieldsApart(t *testing.T) {
	seen := map[random]string{}
	for _, o := range []operation{
		{op: OpAcquire, name: "ab", owner: "c"}, {op: OpAcquire, name: "a", owner: "bc"}, {op: OpAcquire, name: "abc"},
		{op: OpRenew, name: "ab", owner: "c"}, {op: OpAcquire, owner: "abc"},
	} {
		d := draw(1, "r", o, 1)
		require.Empty(t, seen[d], "%+v", o)
		seen[d] = fmt.Sprintf("%+v", o)
		require.Equal(t, d, draw(1, "r", operation{op: o.op, name: o.name, owner: o.owner, id: "another"}, 1), "an ID is random: nothing may go by it")
	}
}

func TestPatterns(t *testing.T) {
	for pattern, texts := range map[string]struct{ yes, no []string }{
		"a":      {[]string{"a"}, []string{"", "b", "aa"}},
		"*":      {[]string{"", "a", "a/b"}, nil},
		"a*":     {[]string{"a", "a/b/c"}, []string{"ba"}},
		"*a":     {[]string{"a", "c/a"}, []string{"ab"}},
		"a*a":    {[]string{"aa", "aba"}, []string{"a", "ab"}},
		"a*b*c":  {[]string{"abc", "a/b/b/c"}, []string{"acb", "ac", "abcd"}},
		"**":     {[]string{"", "x"}, nil},
		"a*bc*c": {[]string{"abcc", "abcbcc"}, []string{"abc"}},
	} {
		for _, text := range texts.yes {
			assert.True(t, fits(pattern, text), "%s %s", pattern, text)
		}
		for _, text := range texts.no {
			assert.False(t, fits(pattern, text), "%s %s", pattern, text)
		}
	}
	assert.True(t, fitsAny(nil, ""))
	assert.False(t, fitsAny([]string{"*"}, ""), "what has no name fits no pattern")
	assert.True(t, fitsAny([]string{"a", "b"}, "b"))
}

func TestLimiterKeepsToItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := Rate{Count: rapid.IntRange(1, 5).Draw(t, "count"), Per: time.Duration(rapid.IntRange(1, 20).Draw(t, "per"))}
		l := newLimiter(Budget{}, rate)
		var now time.Duration
		var taken []time.Duration
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			now += time.Duration(rapid.IntRange(0, 5).Draw(t, "pause"))
			within := 0
			for _, at := range taken {
				if now-at < rate.Per {
					within++
				}
			}
			require.Equal(t, within < rate.Count, l.refuses("n", now) == "", "at %v after %v", now, taken)
			if l.refuses("n", now) == "" {
				l.take("n", now)
				taken = append(taken, now)
			}
		}
	})
}

func TestLimiterKeepsToItsBudget(t *testing.T) {
	l := newLimiter(Budget{Total: 3, PerName: 2}, Rate{})
	for _, step := range []struct {
		name string
		want bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}, {"c", false}} {
		require.Equal(t, step.want, l.refuses(step.name, 0) == "", "%+v", step)
		if step.want {
			l.take(step.name, 0)
		}
	}
}

func TestRecentKeepsTheLatestHalf(t *testing.T) {
	r := newRecent[int, int](8)
	for i := range 100 {
		r.put(i, i)
		r.get(0) // an entry that is used stays
		for j := max(0, i-2); j <= i; j++ {
			value, ok := r.get(j)
			require.True(t, ok, "%d after %d", j, i)
			require.Equal(t, j, value)
		}
		require.LessOrEqual(t, len(r.young)+len(r.old), 8)
	}
	_, ok := r.get(0)
	require.True(t, ok)
	_, ok = r.get(5)
	require.False(t, ok)
}
