package lifecycle_test

import (
	"fmt"

	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
)

// check describes the promise that the state breaks, or returns "".
func (w *world) check() string {
	if w.violation != "" {
		return w.violation
	}
	for i := range w.parties {
		if violation := w.parties[i].checkSteps(); violation != "" {
			return fmt.Sprintf("process %d %s", i, violation)
		}
	}
	if b := &w.backend; !b.failed {
		if violation := w.checkHolders(); violation != "" {
			return violation
		}
		if b.record.ID != "" && b.deadline > w.time && !b.record.Breaking && b.ended.has(b.record.ID) {
			return fmt.Sprintf("claim %s has the name again, although it had ended", b.record.ID)
		}
	}
	return w.checkStuck()
}

// checkSteps checks the effects that a process has applied.
func (p *process) checkSteps() string {
	phase := p.life.Phase()
	begun := p.id != "" && phase != lifecycle.Claiming && phase != lifecycle.Abandoned
	switch {
	case p.violation != "":
		return p.violation
	case p.renewing && p.awaited != 'n' && !p.awaits:
		return "keeps waiters for a renewal that is over"
	case p.failing != int8(lifecycle.Bits(p.failed && phase < lifecycle.Ended)):
		return fmt.Sprintf("counts %d leases whose latest renewal failed", p.failing)
	case p.begins != int8(lifecycle.Bits(begun)):
		return fmt.Sprintf("publishes %d beginnings", p.begins)
	case p.ends != int8(lifecycle.Bits(begun && phase == lifecycle.Ended)):
		return fmt.Sprintf("publishes %d ends", p.ends)
	case p.causes != int8(lifecycle.Bits(begun && phase != lifecycle.Working)):
		return fmt.Sprintf("ends the context of its lease %d times", p.causes)
	}
	return ""
}

// checkHolders checks the processes that work under a lease. A lease that was broken at once is left out: its holder may not have
// noticed yet.
func (w *world) checkHolders() string {
	b, works := &w.backend, -1
	for i := range w.parties {
		p := &w.parties[i]
		if !p.trustsLease() || b.broken.has(p.id) {
			continue
		}
		switch {
		case works >= 0:
			return fmt.Sprintf("processes %d and %d both work", works, i)
		case b.record.ID != p.id || b.deadline <= w.time:
			return fmt.Sprintf("process %d works, and the backend gives the name to others", i)
		case b.record.Token != p.token:
			return fmt.Sprintf("process %d works under token %d, and the backend has %d", i, p.token, b.record.Token)
		}
		works = i
	}
	return ""
}

// checkStuck reports an infinite lease that has neither a holder nor a clean-up.
func (w *world) checkStuck() string {
	if len(w.network) > 0 || w.backend.deadline != trust.Forever || w.backend.record.ID == "" {
		return ""
	}
	for i := range w.parties {
		if p := &w.parties[i]; p.id != "" && p.life.Phase() < lifecycle.Ended || p.awaited != 0 || p.cleansUp {
			return ""
		}
	}
	return "the name stays taken for ever"
}

// admit makes the resource decide on a write.
func (w *world) admit(i int) {
	next, p := w.writes[i], &w.parties[i]
	w.writes[i] = write{}
	if err := fencing.Check("resource", next.token, w.seen); err != nil {
		if p.trustsLease() && p.token == next.token && !w.backend.broken.has(p.id) && !w.backend.failed {
			w.violation = fmt.Sprintf("the resource refuses a write of its holder, process %d: %v", i, err)
		}
		return
	}
	if next.grant < w.written {
		w.violation = fmt.Sprintf("the resource takes a write of process %d under an earlier grant than that of its latest write", i)
	}
	w.seen, w.written = next.token, next.grant
}
