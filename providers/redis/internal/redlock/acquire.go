package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// attempt is one acquire.
type attempt struct {
	*poll
	tally
	req      abstractions.AcquireRequest
	keys     script.Keys
	claim    script.Claim
	began    time.Time
	asking   time.Time // when the latest round began
	grace    time.Time // until when it waits for more than it needs
	asks     []ask     // by node, under way
	channels []string  // by node, on which it is to wake the claim
	rounds   int       // in which votes were asked for again
	timer    *time.Timer
	tell     func(i int) // what a node that answers late has to be told
}

// ask is a node's request under way.
type ask struct {
	op   script.Operation
	sent int64 // in microseconds since the redlock began
}

var errTooLate = fmt.Errorf("%w: a majority has granted the lease, but too late to trust in it", abstractions.ErrUnavailable)

// Acquire makes one attempt, when it is the claim's turn. A repeated one returns the claim's token, unless a node that
// knows it does not answer: then maybe a later one.
func (r *Redlock) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if err := r.meetServers(ctx); err != nil {
		return abstractions.Grant{}, err
	}
	keys := r.Naming.Keys(req.Name)
	turn := claimKey{keys.Name, req.ID}
	try, err := attempts.enter(ctx, turn)
	if err != nil {
		return abstractions.Grant{}, err
	}
	defer attempts.leave(turn)
	n := len(r.nodes)
	a := &attempt{
		poll: r.newPoll(ctx, r.patience(req.TTL), 1), tally: tally{votes: make([]vote, n), quorum: r.quorum, try: try},
		req: req, keys: keys, claim: script.NewClaim(req), began: time.Now(), asks: make([]ask, n), channels: make([]string, n),
	}
	a.timer = time.NewTimer(time.Until(a.by))
	defer a.timer.Stop()
	defer a.afterwards()
	if err := a.askQueue(ctx); err != nil {
		return abstractions.Grant{}, err
	}
	a.callVotes(func(v *vote) bool { return v.stance == noAnswer })
	token, err := a.pursue(ctx)
	if err != nil {
		return abstractions.Grant{}, err
	}
	state := &tenure{Content: a.claim.Content, token: token, try: try, lapses: a.began.Add(validity(req.TTL))}
	return abstractions.Grant{Name: req.Name, ID: req.ID, Token: token, TTL: req.TTL, State: state}, nil
}

// pursue leads to the token, or to the reason why there is none; then no vote is
// left, as far as nodes answer.
func (a *attempt) pursue(ctx context.Context) (token int64, err error) {
	for {
		where, token, won := a.decide()
		switch where {
		case agreed:
			switch {
			case a.first() == noAnswer && a.hasTime():
				err = a.next(ctx, a.grace) // the first node's word on whose turn it is
			case won:
				return a.win(token)
			default:
				err = a.confirm(ctx, token)
			}
		case undecided:
			err = a.next(ctx, a.by)
		case outvoted:
			err = a.outvoted(ctx)
		case queued:
			err = a.refused()
		case ended:
			err = fmt.Errorf("%w, or broken: this ID can't hold the name any more", abstractions.ErrReleased)
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
	a.asking, a.grace = time.Now(), time.Time{}
	a.setTime()
	floor := a.r.floor()
	for i := range a.votes {
		if v := &a.votes[i]; a.asked[i] == 0 && which(v) {
			a.channels[i] = a.r.nodes[i].Waiters.ChannelOf(a.req.ID)
			v.stance = noAnswer
			a.put(i, a.keys.Vote(a.claimAt(i), a.try, floor))
		}
	}
}

// claimAt is the claim as a node is to know it.
func (a *attempt) claimAt(i int) script.Claim {
	c := a.claim
	c.Channel = a.channels[i]
	return c
}

// headStart is how long the node that has the queue is waited for before others are
// asked: most of those who wait learn there that it is not their turn.
const headStart = 10 * time.Millisecond

// askQueue asks the node where the claim is a waiter, if it is one, before the others.
func (a *attempt) askQueue(ctx context.Context) error {
	for i, d := range a.r.nodes {
		if d.Waiters.ChannelOf(a.req.ID) == "" || a.r.peers[i].silent.Load() {
			continue
		}
		a.callVotes(func(v *vote) bool { return v == &a.votes[i] })
		if err := a.next(ctx, time.Now().Add(headStart)); err != nil {
			return err
		}
		if a.votes[i].stance == forWaiter {
			return a.votes[i].held
		}
		break
	}
	return nil
}

// setTime gives the nodes their time again, within that for which the grant is good.
func (a *attempt) setTime() {
	a.poll.setTime(a.r.patience(a.req.TTL))
	if end := a.began.Add(validity(a.req.TTL)); end.Before(a.by) {
		a.by, a.short = end, true
	}
}

// put sends an operation to a node.
func (a *attempt) put(i int, op script.Operation) {
	v := &a.votes[i]
	a.asks[i] = ask{op: op, sent: a.r.micros()}
	v.silent = a.r.peers[i].silent.Load()
	v.pending = true
	if _, err := a.send(i, &a.asks[i].op); err != nil {
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
func (a *attempt) hear(q *node.Request) {
	i, _ := a.took(q)
	a.order = a.r.inOrder() // it may have been met just now
	v := &a.votes[i]
	v.pending = false
	if q.Ops[0].Script == script.Confirm {
		v.confirmed(q.Ops[0].Reply, a.token)
		return
	}
	if clock := v.voted(q.Ops[0].Reply, a.req.Name); clock > 0 {
		a.r.peers[i].lead.Store(clock - a.asks[i].sent)
	}
	a.r.muted(i, v.err)
}

// confirm makes those who are for us take the token.
func (a *attempt) confirm(ctx context.Context, token int64) error {
	if a.token == 0 {
		a.token = token
		a.setTime()
	}
	for i := range a.votes {
		if v := &a.votes[i]; v.ours() && a.asked[i] == 0 && v.token != token && v.before < token {
			a.put(i, a.keys.Confirm(a.claim, token, a.try))
		}
	}
	if a.count((*vote).isPending) == 0 {
		return a.unreached()
	}
	return a.next(ctx, a.by)
}

// hasTime says whether to wait for what is not needed, but good to know. There is as
// much time for it as the round has taken, and a millisecond.
func (a *attempt) hasTime() bool {
	now := time.Now()
	if a.grace.IsZero() {
		a.grace = now.Add(now.Sub(a.asking) + time.Millisecond)
	}
	return now.Before(a.grace)
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
		if v := &a.votes[i]; v.ours() && v.token != token {
			a.post(i, a.keys.Confirm(a.claim, token, a.try))
		}
	}
	for i := range a.votes {
		if a.votes[i].ours() {
			a.r.nodes[i].Waiters.Served(a.req.ID)
		}
		if a.asked[i] == 0 {
			a.tell(i)
		}
	}
	return token, nil
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
	return failure.Of(ctx.Err())
}

// unreached gives up where too many nodes have failed.
func (a *attempt) unreached() error {
	unsure := a.count((*vote).hides) > 0
	return a.failed(!a.undo(!unsure) || unsure)
}

// failed is the error for nodes that have failed, or don't answer. Something may have
// been applied.
func (a *attempt) failed(applied bool) error {
	errs := make([]error, len(a.votes))
	for i := range a.votes {
		v := &a.votes[i]
		if errs[i] = v.err; v.pending && v.err == nil {
			errs[i] = errSilent
		}
	}
	return a.r.failed(errs, applied)
}

// voted reads the reply to a vote, and returns the node's clock if it tells.
func (v *vote) voted(r script.Reply, name string) (clock int64) {
	n, l, err := r.Number()
	v.stance, v.err, v.held, v.unsure, v.freed = noVote, err, nil, false, ""
	if l == nil {
		v.unsure = definite(err) == nil
		if err == nil {
			v.err = fmt.Errorf("%w: the script replied %d", abstractions.ErrUnavailable, n)
		}
		return 0
	}
	switch l.Status {
	case script.Voted:
		return v.counted(l.Text())
	case script.Seen:
		v.refused(l, name)
	case script.Ended:
		v.stance = forNobody
	case script.Quarantined:
		v.err, v.freed = &script.QuarantinedError{Left: l.Millis()}, l.Text()
	default:
		v.err = l.Unexpected()
	}
	return 0
}

// refused reads who is in our way.
func (v *vote) refused(l *script.List, name string) {
	if v.held, v.err = l.Refusal(name); v.err != nil {
		return
	}
	if v.stance = forWaiter; v.held.Holder.Held {
		v.stance = forOther
	}
}

// counted reads the text of a vote for us.
func (v *vote) counted(text string) (clock int64) {
	for _, number := range [...]*int64{&v.token, &v.made, &v.before, &clock} {
		digits, rest, _ := strings.Cut(text, " ")
		var err error
		if *number, err = strconv.ParseInt(digits, 10, 64); err != nil {
			v.err, v.unsure = script.ErrForm, true
			return 0
		}
		text = rest
	}
	v.stance, v.freed = forUs, text
	return clock
}

// confirmed reads the reply to a confirmation.
func (v *vote) confirmed(r script.Reply, token int64) {
	_, l, err := r.Number()
	switch {
	case err != nil:
		v.stance, v.err, v.unsure = noVote, err, true
	case l == nil:
		v.token = token
	default: // unless it has lost the lease it still has our vote
		v.stance, v.err, v.unsure = noVote, l.Unexpected(), l.Status != script.Lost
	}
}
