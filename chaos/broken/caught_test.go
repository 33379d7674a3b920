package broken_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/broken"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// caughtBy names, for each defect, a check of the conformance suite that must fail.
var caughtBy = map[string]string{
	"T06": "Expiry_RenewalIsLostOrProvablyRevives",
	"T13": "Trap_T13_LostReplyIsTriedAgain",
	"T15": "Trap_T15_StateBeforeALostReplyStillWorks",
	"T17": "Trap_T19_ExpiredLeaseBlocksNobody",
	"T18": "Trap_T18_OneOfManyRacersWins",
	"T19": "Expiry_NeverEarlyNorLate",
	"T20": "Trap_T20_RenewalRevivesNothingBesideNewHolder",
	"T21": "Trap_T21_ReleaseKeepsTheToken",
	"T24": "Expiry_NeverEarlyNorLate",
	"T26": "Trap_T26_ReleaseByAnotherIDFreesNothing",
	"T66": "Trap_T66_ItemIsNeitherSuccessNorLossByAccident",
	"T56": "Trap_T56_DelayedAcquireDoesNotLandAfterItsRelease",
}

// defectVariable is the environment variable that names the defect for TestDefective.
const defectVariable = "CHAOS_BROKEN_DEFECT"

func harness(wrap func(leasing.Provider) leasing.Provider) providertest.Harness {
	return providertest.Harness{
		Virtual: true,
		New: func(testing.TB) leasing.Provider {
			return wrap(memlease.New(memlease.Options{Retention: 24 * time.Hour}))
		},
	}
}

func TestCorrectPasses_memory(t *testing.T) {
	servertest.Long(t)
	providertest.Run(t, harness(broken.Correct))
}

// TestDefective fails on purpose, in a process of its own.
func TestDefective(t *testing.T) {
	name := os.Getenv(defectVariable)
	if name == "" {
		return // not the child process
	}
	for _, defect := range broken.All() {
		if defect.Name == name {
			providertest.Run(t, harness(defect.Wrap))
		}
	}
}

func TestEachDefectIsCaught_memory(t *testing.T) {
	for _, defect := range broken.All() {
		t.Run(defect.Trap+" "+defect.Name, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains([]string{"T13", "T20", "T24"}, defect.Trap) {
				servertest.Long(t)
			}
			check, ok := caughtBy[defect.Trap]
			require.True(t, ok, "a check is named")
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDefective$", "-test.timeout=2m")
			command.Env = append(os.Environ(), defectVariable+"="+defect.Name)
			output, err := command.CombinedOutput()
			var failed *exec.ExitError
			require.ErrorAs(t, err, &failed, "%s", output)
			require.NotContains(t, string(output), "panic:")
			require.Contains(t, string(output), "--- FAIL: TestDefective/"+check+" ", "%s", output)
		})
	}
}

func TestPlansOfDefectsExist(t *testing.T) {
	for _, defect := range broken.All() {
		_, err := chaos.Named(defect.Plan, 1)
		require.NoError(t, err, defect.Name)
	}
}
