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

// act makes a move of process i. Like the engine, it calls the process's Lease.
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
		w.due(i)
		if kind == moveDueAnswered {
			w.roundTrip(i)
		}
	case moveWantTTL:
		p.life.WantTTL(w.nextSettings(p))
		p.changes++
	case moveWantMetadata:
		p.changes++
		p.life.WantMetadata(map[string]string{version: string('0' + byte(p.changes))}, nil)
		p.takeEffects(p.life.RenewNow(p.now()))
	case moveRenew:
		if p.takeEffects(p.life.Expire(p.now())); p.life.Over() {
			return
		}
		if mine, usedUp := p.life.AskRenewal(); mine && !usedUp {
			p.renewing = true
			p.takeEffects(p.life.StartRenewal())
			w.renew(i)
		}
	case moveRelease:
		w.askRelease(i)
	case moveHandOver:
		if p.takeEffects(p.life.Expire(p.now())); !p.life.Over() {
			p.takeEffects(p.life.HandOver())
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

// send adds a request to the network.
func (w *world) send(i int, kind byte, ttl time.Duration) {
	p := &w.parties[i]
	p.no++
	if kind != 'c' {
		p.awaited, p.sent, p.answer = kind, p.now(), nil
	}
	w.network = append(slices.Clip(w.network), request{kind: kind, no: p.no, from: int8(i), id: p.id, token: p.token, ttl: ttl, sent: w.time})
}

// takeEffects applies the effects of an input.
func (p *process) takeEffects(fx lifecycle.Effects) {
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
	case fx.Lost.Reason == abstractions.LostExpired && p.life.Remaining(p.now()) > 0 && !p.answeredLost:
		p.violation = "loses a lease that it could trust"
	case fx.Lost.Reason == abstractions.LostRenewalLimit && p.life.Renewals() == 0:
		p.violation = "has used its renewals up without one"
	}
	p.takeEffects(p.life.Settle())
}

// cleanUp begins a clean-up, unless c is nil.
func (p *process) cleanUp(c *lifecycle.CleanUp) {
	if c != nil {
		p.cleansUp, p.tries, p.tryAt = true, lifecycle.Tries{CleanUp: *c}, c.From
	}
}

// tried handles the end of an attempt of a clean-up.
func (p *process) tried(r *request, answered bool) {
	if !p.cleansUp || p.id != r.id {
		return
	}
	left := p.tries.Until.Left(p.now())
	next := p.tries.Tried(p.now(), lifecycle.TryResult{Answered: answered}, lifecycle.Closing{}, 0)
	p.cleansUp, p.tryAt = !next.Done, p.now().Add(next.Pause)
	switch over := left <= 0 || answered && left == trust.Forever; {
	case next.Done && !over:
		p.violation = "ends a clean-up too early"
	case !next.Done && over:
		p.violation = "does not end a clean-up"
	case !next.Done && (next.Pause <= 0 || next.Pause > left):
		p.violation = fmt.Sprintf("cleans up again after %v of %v", next.Pause, left)
	}
}

// roundTrip delivers the latest request, and its answer, at once.
func (w *world) roundTrip(i int) {
	p, last := &w.parties[i], len(w.network)-1
	if last < 0 || p.awaited == 0 || w.network[last].from != int8(i) || w.network[last].no != p.no {
		return
	}
	w.arrive(last, false, false)
	if p.answer != nil {
		w.takeAnswer(i, p.answer, true)
	}
}

var errNoAnswer = lifecycle.MarkNoAnswer(abstractions.ErrUnavailable)

// due runs the due step of a process's lease.
func (w *world) due(i int) {
	p := &w.parties[i]
	renew, fx := p.life.Due(p.now())
	p.takeEffects(fx)
	if renew {
		p.renewing = true
		w.renew(i)
	}
	if next, _ := p.life.Next(p.now()); p.holds() && next <= 0 {
		p.violation = "is due again at once"
	}
}

// renew sends a renewal.
func (w *world) renew(i int) {
	p := &w.parties[i]
	r, ok, fx := p.life.BeginRenewal(p.now())
	p.takeEffects(fx)
	if !ok {
		return
	}
	if left := p.life.Remaining(p.now()); r.Bound <= 0 || r.Bound > left/3 && left != trust.Forever || r.Bound > w.rules.RequestTimeout {
		p.violation = fmt.Sprintf("waits %v for an answer, with a trust of %v", r.Bound, left)
	}
	w.send(i, 'n', r.TTL)
	w.network[len(w.network)-1].metadata, p.carriesMetadata, p.changesSent = r.Metadata, r.Metadata != nil, p.changes
}

func (w *world) abandon(p *process) {
	p.awaited, p.answer = 0, nil
	unknown := p.life.Ambiguous()
	c := p.life.Abandon()
	if unknown {
		p.cleanUp(&c)
	}
}

func (w *world) askRelease(i int) {
	p := &w.parties[i]
	_, await, fx := p.life.AskRelease(p.now())
	p.takeEffects(fx)
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
	p.takeEffects(p.life.Released(err))
	p.takeEffects(lifecycle.Effects{CleanUp: c})
}

// takeAnswer makes a process handle an answer. arrived is false if no answer came.
func (w *world) takeAnswer(i int, a *lifecycle.Answer, arrived bool) {
	p := &w.parties[i]
	kind := p.awaited
	p.awaited, p.answer, p.answeredLost = 0, nil, a.Lost != nil
	switch {
	case p.awaits:
		p.awaits = false
		_, _, fx := p.life.Answered(p.sent, p.now(), a, 0)
		p.takeEffects(fx)
		w.release(i)
	case p.life.Phase() == lifecycle.Releasing:
		p.finishRelease(a.Err)
	case kind == 'a' || p.adopted && p.life.Phase() == lifecycle.Claiming:
		w.takeAcquireAnswer(p, a, arrived)
	case kind == 'n':
		if a.Err == nil && !w.rules.Trusts(p.now(), p.sent, a.Grant.TTL) {
			a = &lifecycle.Answer{Err: errNoAnswer, Applied: true}
		}
		result, _, fx := p.life.Answered(p.sent, p.now(), a, 0)
		p.takeEffects(fx)
		w.renewed(p, result, fx.Event)
	}
}

// renewed checks the time of the next renewal, the TTL and the metadata after a renewal has ended.
func (w *world) renewed(p *process, result lifecycle.Result, event lifecycle.Event) {
	p.failed = result == lifecycle.Failed && p.holds()
	if !p.holds() {
		return
	}
	next, _ := p.life.Next(p.now())
	left, most := p.life.Remaining(p.now()), w.plan.settings.MaxRenewals
	switch by := w.plan.settings.Cadence == trust.Forever || most > 0 && p.life.Renewals() >= most; {
	case by && next < left && most > 0:
		p.violation = "renews more often than it may"
	case !by && result == lifecycle.Renewed && next >= left:
		p.violation = "does not renew before its trust ends"
	case result == lifecycle.Failed && !by && next > max(left/10, lifecycle.MinRetry):
		p.violation = fmt.Sprintf("tries again after %v, with a trust of %v", next, left)
	case result == lifecycle.Failed && event.WillRetry != (next < left):
		p.violation = "reports WillRetry wrongly"
	case result == lifecycle.Failed:
	case w.plan.metadata:
		w.renewedMetadata(p)
	case w.plan.otherSettings != nil && p.changes > 0:
		want := w.plan.otherSettings.TTL
		if p.changes == 2 {
			want = w.plan.settings.TTL
		}
		if granted, carried := p.life.TTLVersions(); granted != carried || granted == int(p.changes) && p.life.TTL() != want {
			p.violation = fmt.Sprintf("renews with a TTL of %v, and wants %v", p.life.TTL(), want)
		}
	}
}

// renewedMetadata checks the metadata after a renewal that succeeded.
func (w *world) renewedMetadata(p *process) {
	confirmed, changed := p.life.Metadata()
	stored := w.backend.record.Metadata
	switch {
	case changed != (p.changes > 0):
		p.violation = "does not know whether its metadata has changed"
	case p.carriesMetadata || !changed || w.onTheWay(p.id) || w.backend.record.ID != p.id:
	case p.life.MetadataVersions().Granted < int(p.changesSent):
		p.violation = "drops a change of its metadata"
	case stored[version] != confirmed[version]:
		p.violation = fmt.Sprintf("believes in the metadata %v, and the backend has %v", confirmed, stored)
	}
}

// onTheWay reports whether a renewal of a claim may still arrive.
func (w *world) onTheWay(id string) bool {
	return slices.ContainsFunc(w.network, func(r request) bool { return r.kind == 'n' && r.id == id })
}

// version is the only key of the metadata.
const version = "version"

// takeAcquireAnswer makes a process handle the answer to an acquire or an adoption.
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
		if p.takeEffects(p.life.Begin(p.now(), p.sent, a.Grant, 0)); p.life.Remaining(p.now()) <= 0 {
			p.violation = "begins a lease without trust"
		}
	}
}
