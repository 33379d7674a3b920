package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/servertest"
)

const (
	notItsHolder = "works, and the backend gives the name to others"
	tokenFalls   = "is granted under token"
	comesBack    = "has the name again, although it had ended"
)

// traps are mutants that the search of internal/lifecycle finds. trap is the number in docs/traps.md, or a name; plan is a plan
// of the search; finds is the broken promise in the search's output.
var traps = []struct{ trap, mutant, plan, finds string }{
	{"T01", "trust: a renewal is trusted from its reply", "finite", notItsHolder},
	{"T05", "fence: a stale token is let in", "a resource", "under an earlier grant"},
	{"T18", "records: a write replaces whatever is stored by then", "a store", tokenFalls},
	{"T20", "records: a renewal of a claim that the holder followed succeeds", "finite", notItsHolder},
	{"T21", "tokens: a release forgets it", "finite", tokenFalls},
	{"T22", "tokens: it rises with each renewal", "finite", "works under token"},
	{"T54", "tokens: a token is a count", "a failover", tokenFalls},
	{"T54", "tokens: the highest of the names that were forgotten does not count", "forgetting", tokenFalls},
	{"T56", "records: a claim that was released is granted again", "finite", comesBack},
	{"T56", "records: the release of a claim that was never seen is forgotten", "finite", comesBack},
	{"T56", "sweep: what was released just now is forgotten", "forgetting", comesBack},
	{"T63", "records: Break does not look at the token that it is to meet", "a break", "hits the one with token"},
	{"T84", "records: a renewal with another token succeeds", "finite", "works under token"},
	{"T85", "trust: a renewal is trusted for the TTL that was asked for", "a longer TTL", notItsHolder},
	{"T85", "trust: after a failed renewal it counts from the reply", "equal clocks", notItsHolder},
	{"T260", "trust: a late renewal for a shorter TTL is forgotten", "a shorter TTL", notItsHolder},
	{"T260", "trust: a shorter TTL counts once it is granted", "a far shorter TTL", notItsHolder},
	{"T260", "trust: SetTTL forgets the renewals before it", "a longer TTL", notItsHolder},
	{"no margin", "trust: it has no margin", "finite", notItsHolder},
	{"late copy", "records: a repeated acquire shortens the lease", "infinite", notItsHolder},
	{"lost release", "release: an unanswered one is not cleaned up", "infinite", "the name stays taken for ever"},
}

// Parts of the search's output.
var (
	stateCount  = regexp.MustCompile(`\d+ states`)
	failureText = regexp.MustCompile(`(?s)but was (.*)\n[^\n]*Test:`)
)

// The search, built with the mutant of a trap, reports the steps that lead to an error.
func TestTheSearchFindsEachTrap(t *testing.T) {
	servertest.Long(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	list, err := parse(listText)
	require.NoError(t, err)
	for _, trap := range traps {
		t.Run(trap.trap+" "+trap.mutant, func(t *testing.T) {
			began, folder := time.Now(), t.TempDir()
			at := slices.IndexFunc(list, func(m *mutant) bool { return m.name == trap.mutant })
			require.GreaterOrEqual(t, at, 0, "a mutant of the list")
			overlay, err := list[at].overlay(root, folder)
			require.NoError(t, err)
			run := fmt.Sprintf("^TestSearch$/^%s$", strings.ReplaceAll(trap.plan, " ", "_"))
			search := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-vet=off", "-overlay", overlay, "-run", run, "./internal/lifecycle")
			search.Dir, search.Env = root, append(os.Environ(), "LEASING_SEARCH_STATES=600000")
			output, err := search.CombinedOutput()
			require.Error(t, err, "%s", output)
			require.Contains(t, string(output), trap.finds)
			story := failureText.FindStringSubmatch(string(output))
			require.NotNil(t, story, "%s", output)
			lines := strings.Split(story[1], "\n")
			t.Logf("%-12s %2d steps, %13s, %3.1f s: %s", trap.trap, len(lines)-1, stateCount.FindString(string(output)), time.Since(began).Seconds(), trap.mutant)
			for _, line := range lines {
				t.Log(strings.TrimSpace(line))
			}
		})
	}
}
