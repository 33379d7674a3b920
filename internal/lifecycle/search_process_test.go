package lifecycle_test

import (
	"errors"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/lifecycle"
)

// act has a process make a move, as the engine does for one lease.
func (w *world) act(i int, kind byte) {
	p := &w.parties[i]
	switch kind {
	case moveAcquire, moveAcquireAnswered:
		if p.idle() {
			*p = p.restarted()
			p.claims++
			p.life, p.id = lifecycle.New(w.rules, &w.plan.settings), claimID(i, p.claims)
		}
		w.send(i, 'a', w.plan.settings.FirstTTL)
		if kind == moveAcquireAnswered {
			w.roundTrip(i)
		}
	case moveAdopt:
		h := w.handover
		w.handover, *p = nil, p.restarted()
		p.life, p.id, p.token, p.adopted = lifecycle.New(w.rules, &w.plan.settings), h.id, h.token, true
		w.send(i, 'n', w.plan.settings.FirstTTL)
	case moveCleanUp:
		w.send(i, 'c', 0)
	case moveAbandon:
		w.abandon(p)
	case moveNoAnswer:
		w.takeAnswer(i, &lifecycle.Answer{Err: errNoAnswer, Applied: true}, false)
	case moveAnswer:
		w.takeAnswer(i, p.answer, true)
	case moveDue, moveDueAnswered:
		w.renew(i)
		if kind == moveDueAnswered {
			w.roundTrip(i)
		}
	case moveWantTTL:
		p.life.WantTTL(w.nextSettings(p))
		p.ttlChanges++
	case moveRelease:
		w.askRelease(i)
	case moveHandOver:
		if p.noteCleanUp(p.life.Expire(p.now())); !p.life.Over() {
			p.noteCleanUp(p.life.HandOver())
			w.handover = &handover{int8(i), p.id, p.token}
		}
	case moveKill:
		w.deaths++
		if p.holds() {
			w.handover = &handover{int8(i), p.id, p.token}
		}
		*p = p.restarted()
	case moveWrite:
		w.writes[i] = write{p.token, w.backend.grantOf(p.id, p.token)}
	}
}

// send puts a request on its way.
func (w *world) send(i int, kind byte, ttl time.Duration) {
	p := &w.parties[i]
	p.no++
	if kind != 'c' {
		p.awaited, p.sent, p.answer = kind, p.now(), nil
	}
	w.network = append(slices.Clip(w.network), request{kind: kind, no: p.no, from: int8(i), id: p.id, token: p.token, ttl: ttl, sent: w.time})
}

// noteCleanUp notes the one effect that the search needs.
func (p *process) noteCleanUp(fx lifecycle.Effects) {
	if fx.CleanUp != nil {
		p.cleanUp = fx.CleanUp
	}
}

// roundTrip delivers the latest request, and its answer.
func (w *world) roundTrip(i int) {
	p, last := &w.parties[i], len(w.network)-1
	if last < 0 || p.awaited == 0 || w.network[last].from != int8(i) || w.network[last].no != p.no {
		return
	}
	w.arrive(last, false)
	if p.answer != nil {
		w.takeAnswer(i, p.answer, true)
	}
}

var errNoAnswer = lifecycle.MarkNoAnswer(abstractions.ErrUnavailable)

// renew is the step of a lease that is due.
func (w *world) renew(i int) {
	p := &w.parties[i]
	renew, fx := p.life.Due(p.now())
	p.noteCleanUp(fx)
	if !renew {
		return
	}
	r, ok, fx := p.life.BeginRenewal(p.now())
	p.noteCleanUp(fx)
	if ok {
		w.send(i, 'n', r.TTL)
	}
}

func (w *world) abandon(p *process) {
	p.awaited, p.answer = 0, nil
	unknown := p.life.Ambiguous()
	c := p.life.Abandon()
	if unknown {
		p.cleanUp = &c
	}
}

func (w *world) askRelease(i int) {
	p := &w.parties[i]
	_, await, fx := p.life.AskRelease(p.now())
	p.noteCleanUp(fx)
	if p.life.Phase() != lifecycle.Releasing {
		return
	}
	p.begun, p.awaits = p.now(), await
	if !await {
		w.release(i)
	}
}

// release takes the next step of a release.
func (w *world) release(i int) {
	p := &w.parties[i]
	switch next, ttl := p.life.NextStep(p.now()); next {
	case lifecycle.SendRelease:
		w.send(i, 'r', 0)
	case lifecycle.Shorten:
		w.send(i, 'n', ttl)
	case lifecycle.RunOut:
		p.finishRelease(nil)
	}
}

func (p *process) finishRelease(err error) {
	c := p.life.AfterRelease(p.begun, err != nil, err != nil)
	p.noteCleanUp(p.life.Released(err))
	p.noteCleanUp(lifecycle.Effects{CleanUp: c})
}

// takeAnswer has a process take an answer. arrived is false if no answer came.
func (w *world) takeAnswer(i int, a *lifecycle.Answer, arrived bool) {
	p := &w.parties[i]
	kind := p.awaited
	p.awaited, p.answer = 0, nil
	switch {
	case p.awaits:
		p.awaits = false
		_, _, fx := p.life.Answered(p.sent, p.now(), a, 0)
		p.noteCleanUp(fx)
		w.release(i)
	case p.life.Phase() == lifecycle.Releasing:
		p.finishRelease(a.Err)
	case kind == 'a' || p.adopted && p.life.Phase() == lifecycle.Claiming:
		w.takeAcquireAnswer(p, a, arrived)
	case kind == 'n':
		if a.Err == nil && !w.rules.Trusts(p.now(), p.sent, a.Grant.TTL) {
			a = &lifecycle.Answer{Err: errNoAnswer, Applied: true}
		}
		_, _, fx := p.life.Answered(p.sent, p.now(), a, 0)
		p.noteCleanUp(fx)
	}
}

// takeAcquireAnswer has a process take the answer to an acquire or an adoption.
func (w *world) takeAcquireAnswer(p *process, a *lifecycle.Answer, arrived bool) {
	switch held := (*abstractions.HeldError)(nil); {
	case !arrived:
		if !p.adopted {
			p.life.Unanswered(p.sent)
		}
	case errors.As(a.Err, &held):
	case a.Err != nil:
		w.abandon(p)
	case !p.life.Granted(p.now(), p.sent, a.Grant.TTL, p.adopted):
		w.abandon(p)
	default:
		p.token = a.Grant.Token
		p.noteCleanUp(p.life.Begin(p.now(), p.sent, a.Grant, 0))
	}
}
