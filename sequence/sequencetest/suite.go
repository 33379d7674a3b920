// Package sequencetest has the conformance suite of sequence.Store.
package sequencetest

import (
	"testing"
	"testing/synctest"
)

// Run checks the contract of sequence.Store, with a test for each promise. Tests whose names begin
// with Trap are for known defects of systems of this kind.
func Run[Tx any](t *testing.T, h Harness[Tx]) {
	tests := map[string]func(*fixture[Tx]){
		"Model_RandomRequestsMeetTheRules":          randomRequestsMeetTheRules[Tx],
		"NumbersHaveOneOrder":                       numbersHaveOneOrder[Tx],
		"ParallelWritersLeaveNoHole":                parallelWritersLeaveNoHole[Tx],
		"AnOperationHasOneNumber":                   anOperationHasOneNumber[Tx],
		"ACommitTakesTheCallersWriteAlong":          aCommitTakesTheCallersWriteAlong[Tx],
		"ACommitCanBeRepeated":                      aCommitCanBeRepeated[Tx],
		"ACommitInOrderWaitsForLowerNumbers":        aCommitInOrderWaitsForLowerNumbers[Tx],
		"ACommitLeasesTheNextNumber":                aCommitLeasesTheNextNumber[Tx],
		"ALateCommitChangesNothing":                 aLateCommitChangesNothing[Tx],
		"ARenewalExtendsALease":                     aRenewalExtendsALease[Tx],
		"ARenewalNeverShortensALease":               aRenewalNeverShortensALease[Tx],
		"AReleaseMakesAGap":                         aReleaseMakesAGap[Tx],
		"WorkIsKept":                                workIsKept[Tx],
		"AGapIsFilledByItsOperationAlone":           aGapIsFilledByItsOperationAlone[Tx],
		"AReaderStopsAtTheWatermarkAndAtTheSeal":    aReaderStopsAtTheWatermarkAndAtTheSeal[Tx],
		"ForgettingStopsAtTheSeal":                  forgettingStopsAtTheSeal[Tx],
		"TheManualQueueKeepsWork":                   theManualQueueKeepsWork[Tx],
		"BadInputIsRefused":                         badInputIsRefused[Tx],
		"EveryChangeIsAudited":                      everyChangeIsAudited[Tx],
		"HooksAreRemembered":                        hooksAreRemembered[Tx],
		"Trap_S01_OneOutcomeAtTheMomentOfExpiry":    trapS1[Tx],
		"Trap_S02_ClaimsGoInOrder":                  trapS2[Tx],
		"Trap_S03_AStaleCleanerAllocatesNothing":    trapS3[Tx],
		"Trap_S04_AFailedRecoveryLosesNoNumber":     trapS4[Tx],
		"Trap_S05_EveryClosingWakes":                trapS5[Tx],
		"Trap_S06_WaitingAtTheBarrierKeepsTheLease": trapS6[Tx],
		"Trap_S07_RecoveryModeIsEnteredOnce":        trapS7[Tx],
		"Trap_S09_ACommitIsSafeFromOtherProcesses":  trapS9[Tx],
		"Trap_S10_AClaimIsFencedAndExtended":        trapS10[Tx],
		"Trap_S11_NothingChangesBehindTheSeal":      trapS11[Tx],
		"Trap_S12_AnExpiredLeaseIsNeverExtended":    trapS12[Tx],
		"Trap_S13_TheCounterOutlivesTheProcess":     trapS13[Tx],
		"Trap_S14_RecoveredWorkSaysWhereItCameFrom": trapS14[Tx],
		"Trap_T134_CompletedWorkIsNeverPassedOver":  trapT134[Tx],
		"Trap_T134_LateWritersAgainstCleaners":      lateWritersAgainstCleaners[Tx],
		"Trap_T198_ACallbackThatPanicsIsAFailure":   trapT198[Tx],
		"Trap_T199_FailingHooksStarveNoOthers":      trapT199[Tx],
		"Trap_T201_APlaceOutsideOfTheStream":        trapT201[Tx],
		"Trap_T204_ACommitThatComesAgainInADo":      trapT204[Tx],
		"Trap_T206_AHookThatDoesNotReturn":          trapT206[Tx],
		"AnOperatorEndsALease":                      anOperatorExpiresALease[Tx],
		"ALateCommitOfADoIsSettled":                 aLateCommitOfADoIsSettled[Tx],
		"ADoClosesItsNumber":                        aDoClosesItsNumber[Tx],
		"AnOperationHasOneHolder":                   anOperationHasOneHolder[Tx],
		"ADoOfManyLeasesAsItCommits":                aDoOfManyLeasesAsItCommits[Tx],
		"SettlingLosesNothing":                      settlingLosesNothing[Tx],
		"TheContextEndsBeforeTheNumberCanBeClaimed": theContextEndsBeforeTheNumberCanBeClaimed[Tx],
		"TheRecoveryChainEndsEveryNumber":           theRecoveryChainEndsEveryNumber[Tx],
		"AFailedStepIsTriedAgain":                   aFailedStepIsTriedAgain[Tx],
		"TheLoadChoosesTheSteps":                    theLoadChoosesTheSteps[Tx],
		"HooksThatFailRunAgain":                     hooksThatFailRunAgain[Tx],
		"ACascadeIsHandledOnce":                     aCascadeIsHandledOnce[Tx],
		"ASlowRecoveryKeepsItsClaim":                aSlowRecoveryKeepsItsClaim[Tx],
		"AStoppedCleanerGivesItsClaimBack":          aStoppedCleanerGivesItsClaimBack[Tx],
		"AClaimThatWasCutOffIsGivenBack":            aClaimThatWasCutOffIsGivenBack[Tx],
		"TheCleanerRunsUntilItIsStopped":            theCleanerRunsUntilItIsStopped[Tx],
		"ReadersSeeOneOrder":                        readersSeeOneOrder[Tx],
		"TheEndOfALeaseHasACause":                   theEndOfALeaseHasACause[Tx],
		"AKindWithoutHistoryHasTheDefault":          aKindWithoutHistoryHasTheDefault[Tx],
		"AReaderPassesOverNoNumber":                 aReaderPassesOverNoNumber[Tx],
		"TheJournalKeepsWhatTheStoreHasNot":         theJournalKeepsWhatTheStoreHasNot[Tx],
		"Trap_S05_WaitingRegistersBeforeItLooks":    waitingRegistersBeforeItLooks[Tx],
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if h.Virtual {
				synctest.Test(t, func(t *testing.T) { test(newFixture(t, h)) })
				return
			}
			t.Parallel()
			test(newFixture(t, h))
		})
	}
}
