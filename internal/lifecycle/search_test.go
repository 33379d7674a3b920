package lifecycle_test

import (
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
)

var (
	finite          = lifecycle.Settings{TTL: ttl, FirstTTL: ttl, Cadence: tick}
	infinite        = lifecycle.Settings{TTL: abstractions.Infinite, FirstTTL: ttl, Cadence: tick}
	infiniteAtLeast = lifecycle.Settings{TTL: abstractions.Infinite, FirstTTL: ttl, Cadence: tick, AtLeast: 2 * tick}
	longer          = lifecycle.Settings{TTL: 5 * tick, FirstTTL: 5 * tick, Cadence: tick}
	shorter         = lifecycle.Settings{TTL: 2 * tick, FirstTTL: 2 * tick, Cadence: tick}
	shortest        = lifecycle.Settings{TTL: tick, FirstTTL: tick, Cadence: 2 * tick / 3}
	byHand          = lifecycle.Settings{TTL: ttl, FirstTTL: ttl, Cadence: trust.Forever}
	limited         = lifecycle.Settings{TTL: ttl, FirstTTL: ttl, Cadence: tick, MaxRenewals: 2}
)

// plans describe small worlds, since one world with all the moves would be too large.
var plans = []plan{
	{name: "finite", settings: finite, requests: 2, copies: 1},
	{name: "one request", settings: finite, requests: 1},
	{name: "equal clocks", settings: finite, equalClocks: true, requests: 2},
	{name: "infinite", settings: infinite, requests: 2, copies: 1, lossy: true},
	{name: "infinite and AtLeast", settings: infiniteAtLeast, requests: 2, lossy: true}, // see AcquireOptions.AtLeast
	{name: "a longer TTL", settings: finite, equalClocks: true, otherSettings: &longer, requests: 2},
	{name: "a shorter TTL", settings: finite, equalClocks: true, otherSettings: &shorter, requests: 2},
	{name: "a far shorter TTL", settings: finite, equalClocks: true, otherSettings: &shortest, requests: 2},
	{name: "hand-over", settings: finite, handOver: true, copies: 1},
	{name: "a restart", settings: finite, deaths: 1, claims: 2, copies: 1},
	{name: "a break", settings: finite, breaks: 1, copies: 1},
	{name: "a resource", settings: finite, fence: true, requests: 2},
	{name: "forgetting", settings: finite, clock: true, setBack: true, retention: 2 * tick, delay: tick, requests: 2, copies: 1},
	{name: "a failover", settings: finite, fence: true, clock: true, failover: true, requests: 2},
	{name: "a store", settings: finite, store: true},
	{name: "late replies", settings: finite, late: true, requests: 2},
	{name: "infinite and late replies", settings: infinite, late: true, lossy: true, requests: 2},
	{name: "metadata", settings: finite, metadata: true, late: true, lossy: true, delay: 2 * tick, requests: 2},
	{name: "by hand", settings: byHand, requests: 2, copies: 1},
	{name: "two renewals", settings: limited, requests: 2, copies: 1},
}

// result is the outcome of a search.
type result struct {
	states, depth int
	exhaustive    bool
	trace         string // the shortest trace of an error; "" for none
}

// step is a move, with the index of the previous step.
type step struct {
	parent int32
	move
}

// search visits states, breadth first, until none is left or it has visited limit states.
func search(p *plan, limit int) (found result) {
	type entry struct {
		w  *world
		at int32
	}
	// The chance that two of a million states share a hash is one in thirty million.
	seed, seen := maphash.MakeSeed(), make(map[uint64]struct{}, limit)
	steps := []step{{parent: -1}}
	front, next := []entry{{p.first(), 0}}, []entry(nil)
	var (
		w    = p.first()
		list []move
		key  []byte
	)
	for ; len(front) > 0; found.depth++ {
		for i, from := range front {
			list = from.w.moves(list[:0])
			for _, m := range list {
				w.set(from.w)
				w.do(m)
				key = w.key(key[:0])
				hash := maphash.Bytes(seed, key)
				violation := w.check() // even if the state is known: the step that led here may be wrong
				if _, known := seen[hash]; known && violation == "" {
					continue
				}
				seen[hash] = struct{}{}
				steps = append(steps, step{from.at, m})
				at := int32(len(steps) - 1)
				found.states = len(seen)
				if violation != "" {
					found.trace = p.trace(steps, at) + violation
					return found
				}
				if found.states >= limit {
					return found
				}
				visited := new(world)
				visited.set(w)
				next = append(next, entry{visited, at})
			}
			front[i].w = nil
		}
		front, next = next, front[:0]
	}
	found.exhaustive = true
	return found
}

// trace describes the steps to a state.
func (p *plan) trace(steps []step, at int32) string {
	var way []move
	for ; at > 0; at = steps[at].parent {
		way = append(way, steps[at].move)
	}
	w := p.first()
	var words strings.Builder
	for i := len(way) - 1; i >= 0; i-- {
		fmt.Fprintf(&words, "%d. %s\n", len(way)-i, w.describe(way[i]))
		w.do(way[i])
	}
	return words.String()
}

// bounds describes the bounds of a plan.
func (p *plan) bounds() string {
	return fmt.Sprintf("%d processes, claims of each: %d, requests on their way: %d, delivered twice: %d, TTL %d ticks", p.processes, p.claims, p.requests, p.copies, p.settings.FirstTTL/tick)
}

// TestSearch visits as many states of each plan as LEASING_SEARCH_STATES says.
func TestSearch(t *testing.T) {
	limit := 100_000
	if testing.Short() {
		limit = 10_000
	}
	if n := os.Getenv("LEASING_SEARCH_STATES"); n != "" {
		_, err := fmt.Sscan(n, &limit)
		require.NoError(t, err)
	}
	for _, p := range plans {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p, began := p.withDefaults(), time.Now()
			found := search(p, limit)
			t.Logf("%s: %d states to depth %d in %v; exhaustive: %v; %s", p.name, found.states, found.depth, time.Since(began).Round(time.Millisecond), found.exhaustive, p.bounds())
			require.Empty(t, found.trace)
		})
	}
}

// If a name is forgotten while requests are under way, it can be granted to a claim that has ended: the search finds
// this error.
func TestTrap_T56_ARetentionThatIsTooShortIsFound(t *testing.T) {
	p := plan{settings: finite, clock: true, retention: tick, delay: 2 * tick, requests: 2}.withDefaults()
	require.Contains(t, search(p, 100_000).trace, "although it had ended")
}
