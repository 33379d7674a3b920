package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Killing a process ends the holds that it still had, and no others.
func TestKilledProcessEndsItsHolds(t *testing.T) {
	b := new(Recording)
	for key, one := range map[string]Hold{
		"held":     {Worker: 1},
		"lost":     {Worker: 1, End: 3},
		"given up": {Worker: 1, End: 4, Ending: EndingGivenUp},
		"other's":  {Worker: 2},
	} {
		one.Name = key
		one.Claim = key
		b.Enter(one)
	}
	b.Enter(Killed{Worker: 1, At: 5})
	got := map[string]Hold{}
	for _, one := range b.Collect().Holds {
		one.Claim = ""
		got[one.Name] = one
	}
	require.Equal(t, map[string]Hold{
		"held":     {Worker: 1, Name: "held", End: 5, Ending: EndingKilled},
		"lost":     {Worker: 1, Name: "lost", End: 3, Ending: EndingKilled},
		"given up": {Worker: 1, Name: "given up", End: 4, Ending: EndingGivenUp},
		"other's":  {Worker: 2, Name: "other's"},
	}, got)
}
