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
	make   func(*named)
	strict bool
}{
	{history.CheckOverlap, (*named).overlaps, true},
	{history.CheckTrust, (*named).trusts, false},
	{history.CheckLinearizable, (*named).orders, true},
	{history.CheckRules, (*named).rules, true},
	{history.CheckTokens, (*named).tokens, false},
	{history.CheckFence, (*named).fence, false},
	{history.CheckRenewal, (*named).renewals, false},
	{history.CheckLoss, (*named).losses, false},
	{history.CheckRelease, (*named).releases, false},
	{history.CheckCleanup, (*named).cleanups, true},
	{history.CheckLiveness, (*named).liveness, true},
	{history.CheckResults, (*named).tells, false},
	{history.CheckWaiting, (*named).waiting, false},
	{history.CheckEvents, (*named).events, false},
	{history.CheckMetadata, (*named).metadata, false},
	{history.CheckListing, (*named).listing, true},
	{history.CheckGhost, (*named).ghosts, true},
	{history.CheckBreak, (*named).broken, true},
	{history.CheckRefusal, (*named).refusals, true},
	{history.CheckAnswer, (*named).answers, false},
	{history.CheckHang, (*named).hangs, false},
	{history.CheckClose, (*named).unanswered, false},
	{history.CheckLeak, (*named).overdue, false},
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
	v.kept()
	slices.SortStableFunc(v.found, func(a, b history.Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(v.found), v.undecided
}
