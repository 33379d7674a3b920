package lifecycle_test

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/lifecycle"
)

// unit is the resolution of instants in a key: margins are thirds of a tick.
const unit = tick / 3

// tokens are the tokens of a state, ranked for the key, since the rules only compare tokens.
type tokens struct {
	all [16]int64
	n   int
}

func (t *tokens) add(token int64) {
	if token != 0 && t.n < len(t.all) && !slices.Contains(t.all[:t.n], token) {
		t.all[t.n] = token
		t.n++
	}
}

func (t *tokens) rank(token int64) (n byte) {
	if token == 0 {
		return 0
	}
	n = 1
	for _, other := range t.all[:t.n] {
		if other < token {
			n++
		}
	}
	return n
}

func (w *world) tokens() (t tokens) {
	b := &w.backend
	for _, token := range [...]int64{b.record.Token, b.floor, b.maxToken, w.operator, w.seen} {
		t.add(token)
	}
	for i := range w.parties {
		t.add(w.parties[i].token)
		t.add(w.writes[i].token)
	}
	for i := range w.network {
		t.add(w.network[i].token)
	}
	if b.before != nil {
		t.add(b.before.record.Token)
	}
	return t
}

// key appends the part of the state on which later steps depend: instants relative to now, and the ranks of tokens.
func (w *world) key(b []byte) []byte {
	t := w.tokens()
	b = w.keyOfBackend(b, &t)
	b = append(b, byte(w.copies), byte(w.breaks), byte(w.deaths), t.rank(w.operator), lifecycle.Bits(w.violation != ""))
	b = w.keyOfNetwork(b, &t)
	for i := range w.parties {
		b = w.keyOfProcess(b, i, &t)
	}
	if h := w.handover; h != nil {
		b = append(append(b, 254, byte(h.from), t.rank(h.token)), h.id...)
	}
	if w.plan.fence {
		b = append(b, t.rank(w.seen), byte(w.written))
		for _, next := range w.writes {
			b = append(b, t.rank(next.token), byte(next.grant))
		}
	}
	return b
}

func (w *world) keyOfBackend(b []byte, t *tokens) []byte {
	s := &w.backend
	r := &s.record
	b = append(b, lifecycle.Until(s.deadline, w.time, unit), lifecycle.Bits(r.Breaking, s.setBack, s.failed), t.rank(r.Token), t.rank(s.maxToken), t.rank(s.floor), byte(min(r.TTL, 100*tick)/tick))
	b = append(append(b, r.ID...), 0)
	for _, e := range r.Ended {
		b = append(b, e.ID...)
	}
	b = append(b, 0)
	for i := range w.parties {
		b = append(b, byte(s.ended[i]), byte(s.broken[i]))
	}
	if w.plan.metadata {
		b = append(append(b, r.Metadata[version]...), 0)
	}
	if w.plan.retention > 0 {
		idle := r.Now.Sub(r.IdleSince)
		if r.ID != "" {
			idle = min(idle, w.time-s.deadline)
		}
		b = append(b, byte(min(max(idle, 0), w.plan.retention)/tick))
	}
	if s.before != nil {
		b = append(append(b, lifecycle.Until(s.before.deadline, w.time, unit), t.rank(s.before.record.Token)), s.before.record.ID...)
		for _, e := range s.before.record.Ended {
			b = append(b, e.ID...)
		}
	}
	return b
}

// keyOfNetwork ignores the order of the requests: each may be the next to arrive.
func (w *world) keyOfNetwork(b []byte, t *tokens) []byte {
	var all [8][11]byte
	list := all[:0]
	for i := range w.network {
		r := &w.network[i]
		p := &w.parties[r.from]
		k := [11]byte{r.kind, byte(r.from), lifecycle.Bits(r.copied, p.awaited == r.kind && p.no == r.no), t.rank(r.token), byte(min(r.ttl, 100*tick) / tick), r.id[0], r.id[1]}
		if w.plan.delay > 0 {
			k[7] = byte((w.time - r.sent) / tick)
		}
		if r.read != nil {
			k[8], k[9] = 1, 2
			if r.read.Version == w.item().Version {
				left, _ := r.read.State.(time.Duration)
				k[9] = byte((left + 100*tick) / tick)
			}
		}
		if v := r.metadata; v != nil {
			k[10] = byte(len(v[version])) + 1
			if v[version] != "" {
				k[10] = v[version][0]
			}
		}
		list = append(list, k)
	}
	slices.SortFunc(list, func(x, y [11]byte) int { return bytes.Compare(x[:], y[:]) })
	for _, k := range list {
		b = append(b, k[:]...)
	}
	return b
}

func (w *world) keyOfProcess(b []byte, i int, t *tokens) []byte {
	p := &w.parties[i]
	handsOver := w.plan.handOver && p.holds() && p.awaited == 0 && p.life.CanHandOver(p.sent)
	b = append(b, 255, p.awaited, byte(p.claims), byte(p.changes), byte(p.lag), t.rank(p.token), lifecycle.Bits(p.adopted, p.awaits, handsOver, p.answer != nil, p.cleansUp, p.carriesMetadata))
	b = append(b, p.id...)
	if p.id == "" {
		return b
	}
	b = p.life.Key(b, p.clock, unit, p.awaited != 0)
	if p.answer != nil {
		b = append(b, kindOf(p.answer.Err), t.rank(p.answer.Grant.Token), byte(min(p.answer.Grant.TTL, 100*tick)/tick))
	}
	if p.awaited != 0 {
		b = append(b, byte(p.changes-p.changesSent), lifecycle.Until(p.sent.Mono+longer.TTL, p.clock, unit))
	}
	if p.life.Phase() == lifecycle.Releasing {
		b = append(b, lifecycle.Until(p.begun.Mono+ttl, p.clock, unit))
	}
	if p.cleansUp {
		b = append(b, lifecycle.Until(p.tryAt.Mono, p.clock, unit), lifecycle.Until(p.tries.Until.Mono, p.clock, unit), byte(min(p.tries.Count(), 4)), lifecycle.Bits(p.tries.Answered()))
	}
	return b
}

// kindOf distinguishes answers as a process does, by the error.
func kindOf(err error) byte {
	switch lost := (*abstractions.LostError)(nil); {
	case err == nil:
		return 0
	case errors.As(err, &lost):
		return lost.Reason[0]
	case errors.Is(err, abstractions.ErrHeld):
		return 'h'
	}
	return 'r'
}
