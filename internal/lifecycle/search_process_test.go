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
	case asks, asksAnswered:
		if p.idle() {
			*p = p.fresh()
			p.claims++
			p.life, p.id = lifecycle.New(w.rules, &w.plan.settings), claimID(i, p.claims)
		}
		w.send(i, 'a', w.plan.settings.FirstTTL)
		if kind == asksAnswered {
			w.roundTrip(i)
		}
	case adopts:
		h := w.handover
		w.handover, *p = nil, p.fresh()
		p.life, p.id, p.token, p.adopted = lifecycle.New(w.rules, &w.plan.settings), h.id, h.token, true
		w.send(i, 'n', w.plan.settings.FirstTTL)
	case cleansUp:
		w.send(i, 'c', 0)
	case givesUp:
		w.abandon(p)
	case getsNone:
		w.answered(i, &lifecycle.Answer{Err: errSilent, Applied: true}, false)
	case getsAnswer:
		w.answered(i, p.answer, true)
	case due, dueAnswered:
		w.renew(i)
		if kind == dueAnswered {
			w.roundTrip(i)
		}
	case wantsTTL:
		p.life.WantTTL(w.nextSettings(p))
		p.wishes++
	case releases:
		w.askRelease(i)
	case handsOver:
		if p.take(p.life.Expire(p.now())); !p.life.Over() {
			p.take(p.life.HandOver())
			w.handover = &handover{int8(i), p.id, p.token}
		}
	case dies:
		w.deaths++
		if p.holds() {
			w.handover = &handover{int8(i), p.id, p.token}
		}
		*p = p.fresh()
	case writes:
		w.writes[i] = write{p.token, w.backend.grantOf(p.id, p.token)}
	}
}

// send puts a request on its way.
func (w *world) send(i int, kind byte, ttl time.Duration) {
	p := &w.parties[i]
	p.no++
	if kind != 'c' {
		p.waits, p.sent, p.answer = kind, p.now(), nil
	}
	w.network = append(slices.Clip(w.network), request{kind: kind, no: p.no, from: int8(i), id: p.id, token: p.token, ttl: ttl, sent: w.time})
}

// take notes the one effect that the search needs.
func (p *process) take(fx lifecycle.Effects) {
	if fx.CleanUp != nil {
		p.cleanUp = fx.CleanUp
	}
}

// roundTrip delivers the latest request, and its answer.
func (w *world) roundTrip(i int) {
	p, last := &w.parties[i], len(w.network)-1
	if last < 0 || p.waits == 0 || w.network[last].from != int8(i) || w.network[last].no != p.no {
		return
	}
	w.arrive(last, false)
	if p.answer != nil {
		w.answered(i, p.answer, true)
	}
}

var errSilent = lifecycle.Silent(abstractions.ErrUnavailable)

// renew is the step of a lease that is due.
func (w *world) renew(i int) {
	p := &w.parties[i]
	renew, fx := p.life.Due(p.now())
	p.take(fx)
	if !renew {
		return
	}
	r, ok, fx := p.life.BeginRenewal(p.now())
	p.take(fx)
	if ok {
		w.send(i, 'n', r.TTL)
	}
}

func (w *world) abandon(p *process) {
	p.waits, p.answer = 0, nil
	unknown := p.life.Unknown()
	c := p.life.Abandon()
	if unknown {
		p.cleanUp = &c
	}
}

func (w *world) askRelease(i int) {
	p := &w.parties[i]
	_, await, fx := p.life.AskRelease(p.now())
	p.take(fx)
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
	case lifecycle.GiveUp:
		w.send(i, 'r', 0)
	case lifecycle.Shorten:
		w.send(i, 'n', ttl)
	case lifecycle.RunOut:
		p.released(nil)
	}
}

func (p *process) released(err error) {
	c := p.life.AfterRelease(p.begun, err != nil, err != nil)
	p.take(p.life.Released(err))
	p.take(lifecycle.Effects{CleanUp: c})
}

// answered has a process take an answer. arrived is false if no answer came.
func (w *world) answered(i int, a *lifecycle.Answer, arrived bool) {
	p := &w.parties[i]
	kind := p.waits
	p.waits, p.answer = 0, nil
	switch {
	case p.awaits:
		p.awaits = false
		_, _, fx := p.life.Answered(p.sent, p.now(), a, 0)
		p.take(fx)
		w.release(i)
	case p.life.Phase() == lifecycle.Releasing:
		p.released(a.Err)
	case kind == 'a' || p.adopted && p.life.Phase() == lifecycle.Claiming:
		w.acquired(p, a, arrived)
	case kind == 'n':
		if a.Err == nil && !w.rules.Trusts(p.now(), p.sent, a.Grant.TTL) {
			a = &lifecycle.Answer{Err: errSilent, Applied: true}
		}
		_, _, fx := p.life.Answered(p.sent, p.now(), a, 0)
		p.take(fx)
	}
}

// acquired has a process take the answer to an acquire or an adoption.
func (w *world) acquired(p *process, a *lifecycle.Answer, arrived bool) {
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
		p.take(p.life.Begin(p.now(), p.sent, a.Grant, 0))
	}
}
