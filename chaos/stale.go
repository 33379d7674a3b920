package chaos

import "time"

// answers are two earlier answers to the same read: one that is served as
// stale, and a later one that will be once it is old enough.
type answers struct {
	old, next answer
}

type answer struct {
	at    time.Duration
	value any
}

// add keeps an answer, unless one is being kept that has yet to become stale.
func (a *answers) add(value any, at, stale time.Duration) {
	if a.next.value != nil && at-a.next.at < stale {
		return
	}
	a.old, a.next = a.next, answer{at, value}
}

// before returns an answer that was given at the instant or earlier; nil if
// there is none.
func (a *answers) before(at time.Duration) any {
	if a.next.value != nil && a.next.at <= at {
		return a.next.value
	}
	if a.old.at <= at {
		return a.old.value
	}
	return nil
}

// remember keeps the answer to a read for the rules that make reads stale.
func (p *Provider) remember(o operation, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.Fault.Kind != FaultStaleRead || !r.concerns(o) {
			continue
		}
		known, ok := r.answers.get(o.read)
		if !ok {
			known = new(answers)
			r.answers.put(o.read, known)
		}
		known.add(value, time.Since(p.start), r.Fault.Delay)
	}
}
