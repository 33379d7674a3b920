package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// attempt is one acquire. It has at most one request in flight to each node: first for the node's vote, then with the
// outcome of all votes.
type attempt struct {
	*poll
	tally
	req           abstractions.AcquireRequest
	keys          script.Keys
	claim         script.Claim
	began         time.Time
	validUntil    time.Time // end of the grant's validity
	roundStart    time.Time // start of the latest round
	optionalUntil time.Time // end of the wait for optional answers
	rounds        int       // rounds that asked for votes again
	ended         bool      // nodes that answer later get the outcome
	since         int64     // after giving up: the number of the first attempt whose votes are taken back
	mayKeepVote   bool      // a node that failed may still have a vote for the claim
}

var (
	errTooLate    = fmt.Errorf("%w: a majority has granted the lease, but too late for any trust", abstractions.ErrUnavailable)
	errNoMajority = errors.New("too few nodes answer")
)

// Acquire makes one attempt, when it is the claim's turn. A repeated acquire returns the claim's token, unless a node that
// has the token does not answer: then the call may return a later token.
func (r *Redlock) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if err := r.checkServers(ctx); err != nil {
		return abstractions.Grant{}, err
	}
	keys := r.Naming.Keys(req.Name)
	try, leave, err := takeTurn(ctx, claimKey{keys.Name, req.ID})
	if err != nil {
		return abstractions.Grant{}, err
	}
	defer leave()
	began := time.Now()
	a := &attempt{
		poll: r.newPoll(ctx, r.nodeTimeout(req.TTL)), tally: tally{votes: make([]vote, len(r.nodes)), order: r.servers.all.Load().order, quorum: r.quorum, try: try},
		req: req, keys: keys, claim: script.NewClaim(req), began: began, validUntil: began.Add(validity(req.TTL)),
	}
	defer a.finishLate()
	token, err := a.run(ctx)
	if err != nil {
		r.move(req.ID)
		return abstractions.Grant{}, a.giveUp(ctx, err)
	}
	state := &grantState{Content: a.claim.Content, token: token, try: try, validUntil: a.validUntil}
	return abstractions.Grant{Name: req.Name, ID: req.ID, Token: token, TTL: req.TTL, State: state}, nil
}

// run returns the token, or the reason why there is no token.
func (a *attempt) run(ctx context.Context) (token int64, err error) {
	if err = a.askQueue(ctx); err == nil {
		a.callVotes(func(v *vote) bool { return v.choice == noAnswer })
	}
	for err == nil {
		where, token, known := a.decide()
		switch where {
		case agreed:
			switch {
			case a.first().choice == noAnswer && a.hasTime():
				err = a.wait(ctx, a.optionalUntil) // the first node's answer says whose turn it is
			case !known:
				err = a.confirm(ctx, token)
			case !time.Now().Before(a.validUntil):
				err = errTooLate
			default:
				a.win(token)
				return token, nil
			}
		case undecided:
			err = a.wait(ctx, a.by)
		case outvoted:
			err = a.contend(ctx)
		case queued:
			err = a.first().held
		case ended:
			err = script.ErrEnded
		case unreachable:
			err = errNoMajority
		}
	}
	return 0, err
}

// callVotes asks selected nodes for their vote, if they have no request in flight.
func (a *attempt) callVotes(which func(v *vote) bool) {
	a.roundStart, a.optionalUntil = time.Now(), time.Time{}
	a.setTime()
	op := a.ballot()
	for i := range a.votes {
		if a.asked[i] == 0 && which(&a.votes[i]) {
			a.callVote(i, op)
		}
	}
}

// ballot returns the operation that asks a node for its vote.
func (a *attempt) ballot() script.Operation { return a.keys.Vote(a.claim, a.try, a.r.floor()) }

func (a *attempt) callVote(i int, op script.Operation) {
	v := &a.votes[i]
	v.choice, v.sent, v.place = noAnswer, a.r.micros(), a.r.nodes[i].Waiters.PlaceOf(a.req.ID)
	op.WaitAt(v.place)
	a.put(i, op)
}

// headStart is the time to wait for the node with the queue before others are asked: this
// node refuses most waiters, since it is not their turn. Votes for them on other nodes
// would obstruct the next waiter.
const headStart = 10 * time.Millisecond

// askQueue asks the node where the claim is a waiter, if any, before the others.
func (a *attempt) askQueue(ctx context.Context) error {
	for i, d := range a.r.nodes {
		if d.Waiters.PlaceOf(a.req.ID) == "" || a.r.peers[i].silent.Load() {
			continue
		}
		a.callVotes(func(v *vote) bool { return v == &a.votes[i] })
		err := a.wait(ctx, time.Now().Add(headStart))
		if a.votes[i].choice == forWaiter {
			return a.votes[i].held
		}
		return err
	}
	return nil
}

// setTime gives the nodes their full time again, within the grant's validity.
func (a *attempt) setTime() {
	a.poll.setTime(a.r.nodeTimeout(a.req.TTL))
	if a.validUntil.Before(a.by) {
		a.by, a.short = a.validUntil, true
	}
}

// put sends an operation to a node that has no request in flight.
func (a *attempt) put(i int, op script.Operation) {
	a.votes[i].silent, a.votes[i].pending = a.r.peers[i].silent.Load(), true
	if err := a.send(i, op); err != nil {
		op.Fail(err)
		a.take(i, &op)
	}
}

// wait waits for an answer, until the given time or the end of the nodes' time. It returns
// an error if the caller has left.
func (a *attempt) wait(ctx context.Context, until time.Time) error {
	q, i := a.next(ctx, until)
	switch {
	case q != nil:
		a.take(i, q.Ops[0])
	case ctx.Err() != nil:
		return failure.Of(ctx.Err())
	case a.isOver():
		for i := range a.votes {
			if v := &a.votes[i]; v.pending {
				v.pending, v.choice, v.err, v.unsure = false, noVote, errSilent, true
			}
		}
	}
	return nil
}

// take processes an answer, even a late answer that the attempt does not need.
func (a *attempt) take(i int, op *script.Operation) {
	a.tally.order = a.r.servers.all.Load().order // the first answer of a server changes the order
	v := &a.votes[i]
	v.pending = false
	switch op.Script {
	case script.Vote:
		if clock := v.readVote(op.Reply, a.req.Name); clock > 0 {
			a.r.peers[i].clockLead.Store(clock - v.sent)
		}
	case script.Confirm:
		v.readConfirmation(op.Reply, a.token)
	case script.Undo:
		if err := op.Reply.Done(); v.isOurs() && err != nil {
			a.mayKeepVote, v.err = true, err
		}
		v.choice = noAnswer
	case script.Release: // see forwardReleases
		if !a.ended {
			a.callVote(i, a.ballot())
		}
	}
	a.settle(i)
}

// confirm makes the nodes that voted for the claim store the token.
func (a *attempt) confirm(ctx context.Context, token int64) error {
	if a.token == 0 {
		a.token = token
		a.setTime()
	}
	for i := range a.votes {
		if v := &a.votes[i]; v.isOurs() && a.asked[i] == 0 && v.token != token && v.before < token {
			a.put(i, a.keys.Confirm(a.claim, token, a.try))
		}
	}
	if a.count((*vote).isPending) == 0 {
		return errNoMajority
	}
	return a.wait(ctx, a.by)
}

// hasTime reports whether to wait for an optional answer. The wait lasts as long as the
// round has taken, plus a millisecond.
func (a *attempt) hasTime() bool {
	now := time.Now()
	if a.optionalUntil.IsZero() {
		a.optionalUntil = now.Add(now.Sub(a.roundStart) + time.Millisecond)
	}
	return now.Before(a.optionalUntil)
}

// win ends the attempt with the agreed token.
func (a *attempt) win(token int64) {
	a.token = token
	for i := range a.votes {
		if a.votes[i].isOurs() {
			a.r.nodes[i].Waiters.Served(a.req.ID)
		}
	}
	a.end()
}

// giveUp takes back the votes for this attempt, waits until the nodes have answered or the caller leaves, and returns the
// attempt's error.
func (a *attempt) giveUp(ctx context.Context, why error) error {
	outnumbered := a.isExcluded()
	unsure := a.count(func(v *vote) bool { return v.pending || v.choice == noVote && v.unsure }) > 0 // these nodes may hold the claim
	if a.since = a.try; !a.mayHaveWon() {
		a.since = 1 // also the votes for earlier attempts
	}
	a.end()
	a.processAnswers(ctx, func() bool { return a.count((*vote).isOurs) > 0 })
	left := a.mayKeepVote || a.count((*vote).isOurs) > 0
	if why != errNoMajority && !(left && !outnumbered && errors.Is(why, abstractions.ErrHeld)) { //nolint:errorlint // errNoMajority is never wrapped
		return why
	}
	errs := make([]error, len(a.votes))
	for i := range a.votes {
		errs[i] = a.votes[i].err
	}
	return a.r.majorityError(ctx, errs, left || unsure)
}

// end ends the attempt, and settles all nodes. Later requests no longer end with the caller's context.
func (a *attempt) end() {
	a.ended, a.ctx = true, context.WithoutCancel(a.ctx)
	for i := range a.votes {
		a.settle(i)
	}
}

// settle sends a node the outcome of the attempt, so that the node stores the agreed token or drops its vote.
func (a *attempt) settle(i int) {
	v := &a.votes[i]
	confirms := a.ended && a.since == 0 && v.isOurs() && v.token != a.token
	forgets := a.since > 0 && (v.isOurs() || v.choice == noVote && v.unsure)
	if a.asked[i] > 0 || !confirms && !forgets {
		return
	}
	a.poll.setTime(a.r.nodeTimeout(a.req.TTL))
	if confirms {
		a.put(i, a.keys.Confirm(a.claim, a.token, a.try))
	} else {
		claim := a.claim
		claim.Place = v.place
		a.put(i, a.keys.Undo(claim, a.try, a.since))
	}
}

// finishLate processes the answers that are still outstanding, and the answers to the requests that these cause.
func (a *attempt) finishLate() {
	if a.open == 0 {
		a.recycle()
		return
	}
	a.by = a.by.Add(a.r.nodeTimeout(a.req.TTL))
	a.r.background.Start(func() error {
		a.processAnswers(context.Background(), func() bool { return a.open > 0 })
		return nil
	}, func(error) { a.recycle() })
}

// processAnswers processes answers while more returns true, the nodes have time, and ctx has not ended.
func (a *attempt) processAnswers(ctx context.Context, more func() bool) {
	for more() {
		q, i := a.next(ctx, a.by)
		if q == nil {
			return
		}
		a.take(i, q.Ops[0])
	}
}
