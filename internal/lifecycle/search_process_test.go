package lifecycle_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
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
		w.due(i)
		if kind == dueAnswered {
			w.roundTrip(i)
		}
	case wantsTTL:
		p.life.WantTTL(w.nextSettings(p))
		p.wishes++
	case wantsMetadata:
		p.wishes++
		p.life.WantMetadata(map[string]string{version: string('0' + byte(p.wishes))}, nil)
		p.take(p.life.RenewNow(p.now()))
	case wantsRenewal:
		if p.take(p.life.Expire(p.now())); p.life.Over() {
			return
		}
		if mine, usedUp := p.life.AskRenewal(); mine && !usedUp {
			p.renewing = true
			p.take(p.life.StartRenewal())
			w.renew(i)
		}
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

// take takes the effects of an input.
func (p *process) take(fx lifecycle.Effects) {
	p.cleanUp(fx.CleanUp)
	if fx.Settled {
		p.renewing = false
	}
	p.failing += fx.Failing
	if fx.Cause != nil {
		p.causes++
	}
	switch fx.Event.Kind {
	case abstractions.EventAcquired:
		p.begins++
	case abstractions.EventReleased, abstractions.EventHandedOver:
		p.ends++
	}
	if fx.Lost == nil {
		return
	}
	p.ends++
	switch {
	case fx.Lost.Reason == abstractions.LostExpired && p.life.Remaining(p.now()) > 0 && !p.denied:
		p.wrong = "loses a lease that it could trust"
	case fx.Lost.Reason == abstractions.LostRenewalLimit && p.life.Renewals() == 0:
		p.wrong = "has used its renewals up without one"
	}
	p.take(p.life.Settle())
}

// cleanUp begins a clean-up, unless c is nil.
func (p *process) cleanUp(c *lifecycle.CleanUp) {
	if c != nil {
		p.cleans, p.tries, p.tryAt = true, lifecycle.Tries{CleanUp: *c}, c.From
	}
}

// tried is the end of a try of a clean-up.
func (p *process) tried(r *request, answered bool) {
	if !p.cleans || p.id != r.id {
		return
	}
	left := p.tries.Until.Left(p.now())
	next := p.tries.Tried(p.now(), lifecycle.TryResult{Answered: answered}, lifecycle.Closing{}, 0)
	p.cleans, p.tryAt = !next.Done, p.now().Add(next.Pause)
	switch over := left <= 0 || answered && left == trust.Forever; {
	case next.Done && !over:
		p.wrong = "ends a clean-up too early"
	case !next.Done && over:
		p.wrong = "does not end a clean-up"
	case !next.Done && (next.Pause <= 0 || next.Pause > left):
		p.wrong = fmt.Sprintf("cleans up again after %v of %v", next.Pause, left)
	}
}

// roundTrip delivers the latest request, and its answer.
func (w *world) roundTrip(i int) {
	p, last := &w.parties[i], len(w.network)-1
	if last < 0 || p.waits == 0 || w.network[last].from != int8(i) || w.network[last].no != p.no {
		return
	}
	w.arrive(last, false, false)
	if p.answer != nil {
		w.answered(i, p.answer, true)
	}
}

var errSilent = lifecycle.Silent(abstractions.ErrUnavailable)

// due is the step of a lease that is due.
func (w *world) due(i int) {
	p := &w.parties[i]
	renew, fx := p.life.Due(p.now())
	p.take(fx)
	if renew {
		p.renewing = true
		w.renew(i)
	}
	if next, _ := p.life.Next(p.now()); p.holds() && next <= 0 {
		p.wrong = "is due again at once"
	}
}

// renew sends a renewal.
func (w *world) renew(i int) {
	p := &w.parties[i]
	r, ok, fx := p.life.BeginRenewal(p.now())
	p.take(fx)
	if !ok {
		return
	}
	if left := p.life.Remaining(p.now()); r.Bound <= 0 || r.Bound > left/3 && left != trust.Forever || r.Bound > w.rules.RequestTimeout {
		p.wrong = fmt.Sprintf("waits %v for an answer, with a trust of %v", r.Bound, left)
	}
	w.send(i, 'n', r.TTL)
	w.network[len(w.network)-1].metadata, p.carries, p.wished = r.Metadata, r.Metadata != nil, p.wishes
}

func (w *world) abandon(p *process) {
	p.waits, p.answer = 0, nil
	unknown := p.life.Unknown()
	c := p.life.Abandon()
	if unknown {
		p.cleanUp(&c)
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
	p.waits, p.answer, p.denied = 0, nil, a.Lost != nil
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
		result, _, fx := p.life.Answered(p.sent, p.now(), a, 0)
		p.take(fx)
		w.renewed(p, result, fx.Event)
	}
}

// renewed checks the plan after the result of a renewal.
func (w *world) renewed(p *process, result lifecycle.Result, event lifecycle.Event) {
	p.failed = result == lifecycle.Failed && p.holds()
	if !p.holds() {
		return
	}
	next, _ := p.life.Next(p.now())
	left, most := p.life.Remaining(p.now()), w.plan.settings.MaxRenewals
	switch by := w.plan.settings.Cadence == trust.Forever || most > 0 && p.life.Renewals() >= most; {
	case by && next < left && most > 0:
		p.wrong = "renews more often than it may"
	case !by && result == lifecycle.Renewed && next >= left:
		p.wrong = "does not renew before its trust ends"
	case result == lifecycle.Failed && !by && next > max(left/10, lifecycle.MinRetry):
		p.wrong = fmt.Sprintf("tries again after %v, with a trust of %v", next, left)
	case result == lifecycle.Failed && event.WillRetry != (next < left):
		p.wrong = "says wrongly whether it will try again"
	case result == lifecycle.Failed:
	case w.plan.metadata:
		w.renewedMetadata(p)
	case w.plan.other != nil && p.wishes > 0:
		want := w.plan.other.TTL
		if p.wishes == 2 {
			want = w.plan.settings.TTL
		}
		if granted, carried := p.life.TTLVersions(); granted != carried || granted == int(p.wishes) && p.life.TTL() != want {
			p.wrong = fmt.Sprintf("renews with a TTL of %v, and wants %v", p.life.TTL(), want)
		}
	}
}

// renewedMetadata checks the metadata after a renewal that succeeded.
func (w *world) renewedMetadata(p *process) {
	confirmed, changed := p.life.Metadata()
	stored := w.backend.record.Metadata
	switch {
	case changed != (p.wishes > 0):
		p.wrong = "does not know whether its metadata has changed"
	case p.carries || !changed || w.onTheWay(p.id) || w.backend.record.ID != p.id:
	case p.life.MetadataVersions().Granted < int(p.wished):
		p.wrong = "drops a change of its metadata"
	case stored[version] != confirmed[version]:
		p.wrong = fmt.Sprintf("believes in the metadata %v, and the backend has %v", confirmed, stored)
	}
}

// onTheWay reports whether a renewal of a claim may still arrive.
func (w *world) onTheWay(id string) bool {
	return slices.ContainsFunc(w.network, func(r request) bool { return r.kind == 'n' && r.id == id })
}

// version is the key of metadata.
const version = "version"

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
		if p.take(p.life.Begin(p.now(), p.sent, a.Grant, 0)); p.life.Remaining(p.now()) <= 0 {
			p.wrong = "begins a lease without trust"
		}
	}
}
