package redislease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	leasing "github.com/distributedleasing/leasing/abstractions"
)

// attempt is one acquire.
type attempt struct {
	*poll
	tally
	req      leasing.AcquireRequest
	keys     keys
	claim    claim
	began    time.Time
	asking   time.Time   // when the latest round began
	ops      []operation // by node, under way
	sent     []int64     // when, in microseconds since the redlock began
	channels []string    // by node, on which it is to wake the claim
	rounds   int         // in which a split vote was asked again
	queue    time.Time   // until when to wait for the node that has the queue
	timer    *time.Timer
	tell     func(i int) // what a node that answers late has to be told
}

var errTooLate = fmt.Errorf("%w: a majority has granted the lease, but too late to trust in it", leasing.ErrUnavailable)

func (r *redlock) acquire(ctx context.Context, req leasing.AcquireRequest, c claim) (leasing.Grant, error) {
	n := len(r.nodes)
	a := &attempt{
		poll:  r.newPoll(ctx, r.patience(req.TTL)),
		tally: tally{votes: make([]vote, n), quorum: r.quorum, try: r.newTry()},
		req:   req, keys: r.naming.keys(req.Name), claim: c, began: time.Now(),
		ops: make([]operation, n), sent: make([]int64, n), channels: make([]string, n),
	}
	a.timer = time.NewTimer(time.Until(a.by))
	defer a.timer.Stop()
	defer a.afterwards()
	a.callVotes(func(*vote) bool { return true })
	token, err := a.pursue(ctx)
	if err != nil {
		return leasing.Grant{}, err
	}
	return leasing.Grant{Name: req.Name, ID: req.ID, Token: token, TTL: req.TTL, State: a.tenure(token)}, nil
}

// pursue leads to the token, or to the reason why there is none; then no vote is
// left, as far as nodes answer.
func (a *attempt) pursue(ctx context.Context) (token int64, err error) {
	for {
		where, token, settled := a.poise()
		switch where {
		case agreed:
			switch {
			case a.awaitsQueue():
				err = a.next(ctx, a.queue)
			case settled:
				return a.win(token)
			default:
				err = a.confirm(ctx, token)
			}
		case undecided:
			err = a.next(ctx, a.by)
		case overtaken:
			err = a.overtake(ctx)
		case outvoted:
			err = a.outvoted(ctx)
		case queued:
			err = a.refused()
		case ended:
			err = fmt.Errorf("%w, or broken: this ID can't hold the name any more", leasing.ErrReleased)
			a.undo(true)
		case unreachable:
			err = a.unreached()
		}
		if err != nil {
			return 0, err
		}
	}
}

// callVotes asks those nodes for their vote that are not under way.
func (a *attempt) callVotes(which func(v *vote) bool) {
	a.asking = time.Now()
	a.setTime()
	floor := a.r.floor()
	for i := range a.votes {
		if v := &a.votes[i]; !a.asked[i] && which(v) {
			a.channels[i] = a.r.nodes[i].waiters.channelOf(a.req.ID)
			a.put(i, a.voteOp(a.channels[i], floor))
			a.votes[i].stance = noAnswer
		}
	}
}

// setTime gives the nodes their time again, within that for which the grant is good.
func (a *attempt) setTime() {
	p := a.r.newPoll(a.ctx, a.r.patience(a.req.TTL))
	if end := a.began.Add(validity(a.req.TTL)); end.Before(p.by) {
		p.by, p.short = end, true
	}
	a.by, a.short = p.by, p.short
}

// put sends an operation to a node.
func (a *attempt) put(i int, op operation) {
	v := &a.votes[i]
	a.ops[i] = op
	a.sent[i] = a.r.micros()
	v.silent = a.r.peers[i].silent.Load()
	v.pending = true
	if err := a.send(i, &a.ops[i]); err != nil {
		v.pending, v.stance, v.err, v.unsure = false, noVote, err, false
	}
}

// next waits for an answer, until some time or the end of the nodes' time. It is an
// error if the caller has left.
func (a *attempt) next(ctx context.Context, until time.Time) error {
	if a.by.Before(until) {
		until = a.by
	}
	a.timer.Reset(time.Until(until))
	select {
	case q := <-a.done:
		a.hear(q)
	case <-ctx.Done():
		return a.abandon(ctx)
	case <-a.timer.C:
		if !time.Now().Before(a.by) {
			a.timeOver()
		}
	}
	return nil
}

// timeOver gives up the nodes that have not answered.
func (a *attempt) timeOver() {
	a.gaveUp()
	for i := range a.votes {
		if v := &a.votes[i]; v.pending {
			v.pending, v.stance, v.err, v.unsure = false, noVote, errSilent, true
		}
	}
}

// hear takes an answer, which may also be one that is no longer waited for.
func (a *attempt) hear(q *request) {
	i := a.took(q)
	v := &a.votes[i]
	v.pending = false
	if q.ops[0].script == confirmScript {
		v.confirmed(q.ops[0].reply, a.token, a.try)
		return
	}
	if clock := v.voted(q.ops[0].reply, a.req.Name); clock > 0 {
		a.r.peers[i].lead.Store(clock - a.sent[i])
	}
}

// confirm makes those who are for us take the token.
func (a *attempt) confirm(ctx context.Context, token int64) error {
	if a.token == 0 {
		a.token = token
		a.setTime()
	}
	for i := range a.votes {
		v := &a.votes[i]
		if a.ours(v) && !a.asked[i] && v.won != a.try && v.before < token {
			a.put(i, a.confirmOp(token))
		}
	}
	if a.count(pending) == 0 {
		return a.unreached()
	}
	return a.next(ctx, a.by)
}

// awaitsQueue says whether to wait for the first node's word on whose turn it is.
// It gets as much time again as the majority has taken, and a millisecond.
func (a *attempt) awaitsQueue() bool {
	if a.first() != noAnswer {
		return false
	}
	now := time.Now()
	if a.queue.IsZero() {
		a.queue = now.Add(now.Sub(a.asking) + time.Millisecond)
	}
	return now.Before(a.queue)
}

// win ends the attempt. Nodes that have another token, or have not answered yet, are
// told the one that was agreed on.
func (a *attempt) win(token int64) (int64, error) {
	if time.Since(a.began) >= validity(a.req.TTL) {
		a.undo(false)
		return 0, errTooLate
	}
	a.token = token
	a.tell = func(i int) {
		if v := &a.votes[i]; v.stance == forUs && v.token != token {
			a.post(i, a.confirmOp(token))
		}
	}
	for i := range a.votes {
		if a.votes[i].stance == forUs {
			a.r.nodes[i].waiters.served(a.req.ID)
		}
		if !a.asked[i] {
			a.tell(i)
		}
	}
	return token, nil
}

// overtake asks again with a later attempt than the one that was in the way.
func (a *attempt) overtake(ctx context.Context) error {
	for i := range a.votes {
		a.r.pass(a.votes[i].promise)
	}
	if err := a.rest(ctx); err != nil {
		return err
	}
	a.try, a.token = a.r.newTry(), 0
	a.callVotes(func(v *vote) bool { return v.stance == forUs || v.stance == noVote })
	return nil
}

// rest pauses for about a round trip, more with each round, so that those who
// compete get out of step.
func (a *attempt) rest(ctx context.Context) error {
	trip := min(max(time.Since(a.asking), 100*time.Microsecond), 5*time.Millisecond)
	a.rounds++
	a.timer.Reset(trip/2 + rand.N(trip*time.Duration(min(a.rounds, 4))))
	select {
	case <-a.timer.C:
	case <-ctx.Done():
		return a.abandon(ctx)
	}
	if time.Since(a.began) >= validity(a.req.TTL) {
		a.undo(false)
		return errTooLate
	}
	return nil
}

// abandon is for a caller who has left.
func (a *attempt) abandon(ctx context.Context) error {
	a.undo(false)
	return failure(context.Cause(ctx))
}

// unreached is the error for nodes that have failed.
func (a *attempt) unreached() error {
	errs := make([]error, len(a.votes))
	unsure := false
	for i := range a.votes {
		errs[i] = a.votes[i].err
		unsure = unsure || a.votes[i].hides()
	}
	return a.r.failed(errs, !a.undo(!unsure) || unsure)
}

// voted reads the reply to a vote, and returns the node's clock if it tells.
func (v *vote) voted(r reply, name string) (clock int64) {
	n, l, err := r.number()
	v.stance, v.err, v.held, v.unsure = noVote, err, nil, false
	if l == nil {
		v.unsure = certainty(err) == nil && !errors.Is(err, errUnsent)
		if err == nil {
			v.err = fmt.Errorf("%w: the script replied %d", leasing.ErrUnavailable, n)
		}
		return 0
	}
	switch l.status {
	case statusVoted:
		v.token, v.won, v.made, v.promise, v.before = l.int(), l.int(), l.int(), l.int(), l.int()
		clock, v.freed = l.int(), l.text()
		if v.stance = forUs; l.bad {
			v.stance, v.err, v.unsure = noVote, errForm, true
		}
		return clock
	case statusHeld:
		record, err := l.record(name)
		if v.err = err; err == nil {
			v.stance, v.held = forOther, &leasing.HeldError{Holder: record}
		}
	case statusReserved:
		token, left := l.int(), l.millis()
		v.stance, v.held = forWaiter, &leasing.HeldError{Holder: leasing.Record{Name: name, Token: token}, RetryAfter: left}
	case statusEnded:
		v.stance = overOver
	default:
		v.err = l.unexpected()
	}
	return 0
}

// confirmed reads the reply to a confirmation of this attempt.
func (v *vote) confirmed(r reply, token, try int64) {
	_, l, err := r.number()
	switch {
	case err != nil:
		v.stance, v.err, v.unsure = noVote, err, true
	case l == nil:
		v.token, v.won = token, try
	case l.status == statusOvertaken:
		v.promise = l.int()
	default: // it has lost the lease, or casts no vote any more
		v.stance, v.err, v.unsure = noVote, l.unexpected(), false
	}
}
