package dialecttest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

// Database is a dialect under test.
type Database struct {
	// URL returns a URL for the test's own tables, which do not exist yet.
	URL func(t testing.TB) string
	// Open opens a provider.
	Open func(ctx context.Context, rawURL string) (*sqllease.Provider, error)
	// Except has the names of the tests that this dialect skips, each with a reason.
	Except map[string]string
}

// Run runs the tests that all dialects share. The backend must be an [Executor].
func Run(t *testing.T, d Database) {
	for _, test := range tests {
		if _, excepted := d.Except[test.name]; excepted {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, d)
		})
	}
}

var tests = []struct {
	name string
	run  func(t *testing.T, d Database)
}{
	{"ProcessesExcludeEachOther", processesExcludeEachOther},
	{"BreakIsSigned", breakIsSigned},
	{"MetadataIsReplacedWhileHeld", metadataIsReplacedWhileHeld},
	{"AdoptedClaimIsRenewedAndReleased", adoptedClaimIsRenewedAndReleased},
	{"ForgottenClaimThatWasBrokenIsRefused", forgottenClaimThatWasBrokenIsRefused},
	{"Trap_T127_TheFloorIsKeptAndObeyed", theFloorIsKeptAndObeyed},
	{"Trap_T128_NoTokenFollowsTheLast", noTokenFollowsTheLast},
	{"HistoryRecordsEachChange", historyRecordsEachChange},
	{"HistoryIsPartOfTheChange", historyIsPartOfTheChange},
	{"HistoryIsOptional", historyIsOptional},
	{"HistoryIsInOrder", historyIsInOrder},
	{"HistoryOfOthers", historyOfOthers},
	{"Trap_T141_TheHistoryHasNoIDs", theHistoryHasNoIDs},
	{"MissingTablesAskForMigrate", missingTablesAskForMigrate},
	{"MigrateAgainChangesNothing", migrateAgainChangesNothing},
	{"NewerTablesAreLeftAlone", newerTablesAreLeftAlone},
	{"Trap_T256_TablesAreBroughtUpToDate", tablesAreBroughtUpToDate},
	{"AStepThatFailsIsBegunAgain", aStepThatFailsIsBegunAgain},
	{"TablesOfBeforeTheFirstReleaseAreRefused", tablesOfBeforeTheFirstReleaseAreRefused},
	{"GoldenTables", goldenTables},
	{"MigrateTogether", migrateTogether},
	{"StatementsCreateTheTables", statementsCreateTheTables},
	{"Trap_T87_ForeignTablesAreLeftAlone", foreignTablesAreLeftAlone},
	{"Trap_T87_TablesThatChangedAreNotSetUp", tablesThatChangedAreNotSetUp},
	{"NewerSchemaIsNoticedByAnOpenProvider", newerSchemaIsNoticedByAnOpenProvider},
	{"Trap_T28_OneOffNamesAreForgotten", oneOffNamesAreForgotten},
	{"SweepKeepsWhatIsStillNeeded", sweepKeepsWhatIsStillNeeded},
	{"SweepGoesThroughTheWholeTable", sweepGoesThroughTheWholeTable},
	{"Trap_T54_TokenFollowsTheClock", tokenFollowsTheClock},
	{"ForeverForgetsNothing", foreverForgetsNothing},
	{"HistoryIsForgottenInTime", historyIsForgottenInTime},
	{"Trap_T73_ShortProcessesSweepToo", shortProcessesSweepToo},
	{"Trap_T74_HistoryIsBoundedByWhatIsWritten", historyIsBoundedByWhatIsWritten},
	{"GrantsHaveServerTimeAndExpiry", grantsHaveServerTimeAndExpiry},
	{"TheDeadAreNotListed", theDeadAreNotListed},
	{"TheLastThatHangsIsNotListed", theLastThatHangsIsNotListed},
	{"Trap_T66_BatchReturnsEachClaimsResult", batchReturnsEachClaimsResult},
	{"LargeBatch", largeBatch},
	{"Trap_T161_ARowOfVersionZero", aRowOfVersionZero},
}

// New returns a function that opens providers on the test's own tables. All these providers share the tables. The
// parameters are query parameters, each a name and a value. The tables are created unless the parameter create is
// "false".
func (d Database) New(t testing.TB) func(parameters ...string) *sqllease.Provider {
	rawURL := d.URL(t)
	return func(parameters ...string) *sqllease.Provider { return d.OpenTest(t, rawURL, parameters) }
}

// OpenTest opens a provider, and closes it at the end of the test.
func (d Database) OpenTest(t testing.TB, rawURL string, parameters []string) *sqllease.Provider {
	t.Helper()
	if !slices.Contains(parameters, "create") {
		parameters = append(parameters, "create", "true")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p, err := d.Open(ctx, WithParameters(rawURL, parameters...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func (d Database) on(t *testing.T, test func(t *testing.T, open func(parameters ...string) *sqllease.Provider)) {
	test(t, d.New(t))
}
