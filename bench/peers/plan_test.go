package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPlanPicks(t *testing.T) {
	p, err := newPlan([]string{"contended", "cycles"}, []string{"mutex", "redislock"})
	require.NoError(t, err)
	p.quick = true
	var all []string
	for _, rows := range p.tables() {
		for _, m := range rows {
			all = append(all, m.String())
		}
	}
	assert.Equal(t, []string{
		"contended, 8 goroutines, one client, mutex",
		"contended, 8 goroutines, one client, redislock",
		"contended, 8 goroutines, separate clients, mutex",
		"contended, 8 goroutines, separate clients, redislock",
		"cycles, 4 goroutines, redislock",
	}, all)
	assert.Equal(t, []int{1}, p.servers())
}

func TestPlanOfAll(t *testing.T) {
	p, err := newPlan(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, []int{1, 3}, p.servers())
	seen := map[string]bool{}
	for _, rows := range p.tables() {
		for _, m := range rows {
			assert.False(t, seen[m.key()], "%v twice", m)
			seen[m.key()] = true
		}
		assert.Equal(t, "leasing", rows[0].peer.Name)
		if floor := rows[0].workload.floor; floor != "" {
			assert.Condition(t, func() bool {
				for _, m := range rows {
					if m.peer.Name == floor {
						return true
					}
				}
				return false
			}, "%s lacks its floor %s", rows[0].workload.name, floor)
		}
	}
}

func TestPlanNeedsNoServerForLocalLocks(t *testing.T) {
	p, err := newPlan(nil, []string{"mutex"})
	require.NoError(t, err)
	assert.Empty(t, p.servers())
}

func TestPlanRefusesUnknownNames(t *testing.T) {
	_, err := newPlan([]string{"cycle"}, nil)
	assert.ErrorContains(t, err, `no workload "cycle"; there are: cycles, held`)
	_, err = newPlan(nil, []string{"chubby"})
	assert.ErrorContains(t, err, `no peer "chubby"; there are: leasing, redislock`)
}

// TestPlanInterleaves: a round measures everything once, the peers of a table in
// a row, and no round in the order of another.
func TestPlanInterleaves(t *testing.T) {
	p, err := newPlan([]string{"contended"}, []string{"leasing", "redislock", "redsync", "mutex"})
	require.NoError(t, err)
	orders, firsts := map[string]bool{}, map[string]bool{}
	before := map[string]map[string]bool{} // who came just before whom in a table
	for round := range 4 {
		var names string
		all := p.order(round)
		require.Len(t, all, 8)
		counts := map[string]int{}
		for i, m := range all {
			counts[m.key()]++
			assert.Equal(t, all[i/4*4].variant, m.variant, "the tables are mixed")
			names += m.peer.Name + " "
			if i%4 > 0 {
				if before[m.peer.Name] == nil {
					before[m.peer.Name] = map[string]bool{}
				}
				before[m.peer.Name][all[i-1].peer.Name] = true
			}
		}
		assert.Len(t, counts, 8)
		orders[names], firsts[all[0].peer.Name] = true, true
	}
	assert.Len(t, orders, 4)
	assert.GreaterOrEqual(t, len(firsts), 2)
	for peer, others := range before {
		assert.Greater(t, len(others), 1, "%s always comes after %v", peer, others)
	}
}
