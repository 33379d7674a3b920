package lifecycle_test

import (
	"fmt"

	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
)

// wrong returns the promise that a state breaks, or "".
func (w *world) wrong() string {
	if w.bad != "" {
		return w.bad
	}
	for i := range w.parties {
		if wrong := w.parties[i].wrongSteps(); wrong != "" {
			return fmt.Sprintf("process %d %s", i, wrong)
		}
	}
	if b := &w.backend; !b.failed {
		if wrong := w.wrongHolder(); wrong != "" {
			return wrong
		}
		if b.record.ID != "" && b.deadline > w.time && !b.record.Breaking && b.gone.has(b.record.ID) {
			return fmt.Sprintf("claim %s has the name again, although it had ended", b.record.ID)
		}
	}
	return w.stuck()
}

// wrongSteps checks the effects that a process has taken.
func (p *process) wrongSteps() string {
	phase := p.life.Phase()
	begun := p.id != "" && phase != lifecycle.Claiming && phase != lifecycle.Abandoned
	switch {
	case p.wrong != "":
		return p.wrong
	case p.renewing && p.waits != 'n' && !p.awaits:
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

// wrongHolder checks the processes that work. A lease that was broken at once is left out: its holder may not have noticed yet.
func (w *world) wrongHolder() string {
	b, works := &w.backend, -1
	for i := range w.parties {
		p := &w.parties[i]
		if !p.believes() || b.broken.has(p.id) {
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

// stuck reports an infinite lease that has neither a holder nor a clean-up.
func (w *world) stuck() string {
	if len(w.network) > 0 || w.backend.deadline != trust.Forever || w.backend.record.ID == "" {
		return ""
	}
	for i := range w.parties {
		if p := &w.parties[i]; p.id != "" && p.life.Phase() < lifecycle.Ended || p.waits != 0 || p.cleans {
			return ""
		}
	}
	return "the name stays taken for ever"
}

// admit has the resource decide about a write.
func (w *world) admit(i int) {
	next, p := w.writes[i], &w.parties[i]
	w.writes[i] = write{}
	if err := fencing.Check("resource", next.token, w.seen); err != nil {
		if p.believes() && p.token == next.token && !w.backend.broken.has(p.id) && !w.backend.failed {
			w.bad = fmt.Sprintf("the resource refuses a write of its holder, process %d: %v", i, err)
		}
		return
	}
	if next.grant < w.written {
		w.bad = fmt.Sprintf("the resource takes a write of process %d under an earlier grant than that of its latest write", i)
	}
	w.seen, w.written = next.token, next.grant
}
