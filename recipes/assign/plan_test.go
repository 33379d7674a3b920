package assign

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// names returns n names: prefix followed by 10, 11 and so on.
func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, 10+i))
	}
	return all
}

func TestPlanIsEvenAndMovesNoMoreThanItMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions, workers := names("p", rapid.IntRange(1, 20).Draw(t, "partitions")), names("w", rapid.IntRange(1, 7).Draw(t, "workers"))
		anybody := rapid.SampledFrom(append(slices.Clone(workers), "", "dead", "gone"))
		holders, likes := map[string]string{}, map[string]string{}
		prefer := rapid.Bool().Draw(t, "prefer")
		for _, p := range partitions {
			holders[p] = anybody.Draw(t, "holder")
			if prefer {
				likes[p] = anybody.Draw(t, "preferred")
			}
		}
		preferred := func(p string) string { return likes[p] }
		of := plan(partitions, workers, holders, preferred)

		count, held, wanted, preferredMet := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
		for _, p := range partitions {
			require.Contains(t, workers, of[p])
			count[of[p]]++
			held[holders[p]]++
			wanted[likes[p]]++
			if of[p] == likes[p] {
				preferredMet[of[p]]++
			}
		}
		share := len(partitions) / len(workers)
		for _, w := range workers {
			require.GreaterOrEqual(t, count[w], share)
			require.LessOrEqual(t, count[w], share+1)
			require.GreaterOrEqual(t, preferredMet[w], min(wanted[w], share), "%s has what it is preferred for", w)
		}
		if !prefer {
			must := 0 // the fewest possible moves, whichever workers get an extra partition
			over := 0
			for _, w := range workers {
				must += max(0, held[w]-share)
				if held[w] > share {
					over++
				}
			}
			must -= min(over, len(partitions)%len(workers))
			moved := 0
			for _, p := range partitions {
				if slices.Contains(workers, holders[p]) && of[p] != holders[p] {
					moved++
				}
			}
			require.Equal(t, must, moved)
		}

		// The plan stays the same while it is carried out step by step, in any order.
		for _, p := range rapid.Permutation(append(slices.Clone(partitions), partitions...)).Draw(t, "order") {
			switch holders[p] {
			case of[p]:
				continue
			case "":
				holders[p] = of[p]
			default:
				holders[p] = ""
			}
			require.Equal(t, of, plan(partitions, workers, maps.Clone(holders), preferred))
		}
	})
}
