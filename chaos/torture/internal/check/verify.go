package check

import (
	"cmp"
	"slices"

	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// checks are the checks of a name's history, in this order. The strict checks can't be made if
// the run breaks the provider's assumptions.
var checks = []struct {
	history.Check
	make   func(*nameHistory)
	strict bool
}{
	{history.CheckOverlap, (*nameHistory).overlaps, true},
	{history.CheckTrust, (*nameHistory).trustReports, false},
	{history.CheckLinearizable, (*nameHistory).orders, true},
	{history.CheckRules, (*nameHistory).rules, true},
	{history.CheckTokens, (*nameHistory).tokens, false},
	{history.CheckFence, (*nameHistory).fence, false},
	{history.CheckRenewal, (*nameHistory).renewals, false},
	{history.CheckLoss, (*nameHistory).losses, false},
	{history.CheckRelease, (*nameHistory).releases, false},
	{history.CheckCleanup, (*nameHistory).cleanups, true},
	{history.CheckLiveness, (*nameHistory).liveness, true},
	{history.CheckResults, (*nameHistory).results, false},
	{history.CheckWaiting, (*nameHistory).waiting, false},
	{history.CheckEvents, (*nameHistory).events, false},
	{history.CheckMetadata, (*nameHistory).metadata, false},
	{history.CheckListing, (*nameHistory).listing, true},
	{history.CheckGhost, (*nameHistory).ghosts, true},
	{history.CheckBreak, (*nameHistory).breakResults, true},
	{history.CheckRefusal, (*nameHistory).refusals, true},
	{history.CheckAnswer, (*nameHistory).answers, false},
	{history.CheckHang, (*nameHistory).hangs, false},
	{history.CheckClose, (*nameHistory).unansweredReleases, false},
	{history.CheckLeak, (*nameHistory).falseRefusals, false},
}

// Verify makes all checks of a history. It returns the violations in the order in which they
// happened, and the names for which the search ended without a decision after SearchSteps
// steps.
func Verify(h *history.History, l Limits) (violations []history.Violation, undecided []string) {
	v := &verification{Limits: l, h: h, end: h.End()}
	for _, n := range v.byName() {
		for _, check := range checks {
			if !check.strict || !v.AssumptionsBroken {
				n.check = check.Check
				check.make(n)
			}
		}
	}
	v.leaks()
	slices.SortStableFunc(v.found, func(a, b history.Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(v.found), v.undecided
}
