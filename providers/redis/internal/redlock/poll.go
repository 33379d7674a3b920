package redlock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// errSilent is for a node that has not answered in time.
var errSilent = fmt.Errorf("%w: no answer in time", abstractions.ErrUnavailable)

// poll is a question to all nodes at the same time.
type poll struct {
	r       *Redlock
	ctx     context.Context // its values are for what traces calls
	by      time.Time
	short   bool               // the caller left the nodes less time than is usual
	done    chan *node.Request // has room for all requests that may be under way
	asked   []int              // requests under way, by node
	open    int                // all of them
	replies []script.Reply     // of a poll by ask; the latest
	heard   int                // answers to it
}

// newPoll makes one of so many operations for each node at a time.
func (r *Redlock) newPoll(ctx context.Context, patience time.Duration, operations int) *poll {
	requests := (operations + batch.MaxOperations - 1) / batch.MaxOperations
	p := &poll{r: r, ctx: ctx, done: make(chan *node.Request, requests*len(r.nodes)), asked: make([]int, len(r.nodes))}
	p.setTime(patience)
	return p
}

// setTime gives nodes their time from now on, within the caller's.
func (p *poll) setTime(patience time.Duration) {
	p.by, p.short = time.Now().Add(patience), false
	if by, ok := p.ctx.Deadline(); ok && by.Before(p.by) {
		p.by, p.short = by, true
	}
}

// hurry leaves nodes no more than some time from now on.
func (p *poll) hurry(most time.Duration) {
	if by := time.Now().Add(most); by.Before(p.by) {
		p.by = by
	}
}

// send sends operations to a node, and returns those that it can't send, with the error, since the provider is closed.
func (p *poll) send(i int, ops ...*script.Operation) (unsent []*script.Operation, err error) {
	for first := 0; first < len(ops); first += batch.MaxOperations {
		part := ops[first:min(first+batch.MaxOperations, len(ops))]
		q := &node.Request{Ops: part, Context: p.ctx, By: p.by, Tag: first*len(p.asked) + i, Done: p.done}
		if err := p.r.nodes[i].Start(q); err != nil {
			return ops[first:], err
		}
		p.asked[i]++
		p.open++
	}
	return nil, nil
}

// took notes an answer, and returns whose it is, and the place of its first operation among those that were sent.
func (p *poll) took(q *node.Request) (i, first int) {
	i, first = q.Tag%len(p.asked), q.Tag/len(p.asked)
	p.asked[i]--
	p.open--
	if err := q.Ops[0].Reply.Err; err == nil || certainty(err) != nil {
		p.r.heard(i, true)
	} else if !p.short {
		p.r.heard(i, false)
	}
	return i, first
}

// gaveUp notes that the time is over for those who have not answered.
func (p *poll) gaveUp() {
	for i, asked := range p.asked {
		if asked > 0 && !p.short {
			p.r.heard(i, false)
		}
	}
}

// waits says whether somebody is asked who usually answers.
func (p *poll) waits() bool {
	for i, asked := range p.asked {
		if asked > 0 && !p.r.peers[i].silent.Load() {
			return true
		}
	}
	return false
}

// gather puts operations to all nodes and hears what becomes of them, from the first-th on, until enough says so, all have
// answered, the time is over or the caller leaves.
func (p *poll) gather(ops func(i int) []*script.Operation, hear func(i, first int, ops []*script.Operation), enough func() bool) {
	for _, i := range slices.Backward(p.r.inOrder()) { // the first has the queue: let others know before it wakes somebody
		all := ops(i)
		if unsent, err := p.send(i, all...); err != nil {
			for _, op := range unsent {
				op.Fail(err)
			}
			hear(i, len(all)-len(unsent), unsent)
		}
	}
	timer := time.NewTimer(time.Until(p.by))
	defer timer.Stop()
	for p.open > 0 && !enough() {
		timer.Reset(time.Until(p.by))
		select {
		case q := <-p.done:
			i, first := p.took(q)
			hear(i, first, q.Ops)
		case <-timer.C:
			p.gaveUp()
			return
		case <-p.ctx.Done():
			return
		}
	}
}

// ask puts one operation to all nodes, and collects the replies.
func (r *Redlock) ask(ctx context.Context, patience time.Duration, op script.Operation, enough func(p *poll) bool) *poll {
	p := r.newPoll(ctx, patience, 1)
	p.replies = make([]script.Reply, len(r.nodes))
	p.gather(func(i int) []*script.Operation {
		p.replies[i].Err = errSilent
		copied := op
		return []*script.Operation{&copied}
	}, func(i, _ int, done []*script.Operation) {
		p.replies[i] = done[0].Reply
		p.heard++
	}, func() bool { return enough(p) })
	return p
}

// all is for questions whose answer is better the more nodes have answered: it waits
// for those that usually do.
func (p *poll) all() bool { return p.heard >= p.r.quorum && !p.waits() }

// did counts the replies that say that all went well.
func (p *poll) did() (n int, errs []error) {
	errs = make([]error, len(p.replies))
	for i, reply := range p.replies {
		if errs[i] = reply.Done(); errs[i] == nil {
			n++
		}
	}
	return n, errs
}

// didVoting counts those of them that cast votes.
func (p *poll) didVoting() (n int) {
	for i, reply := range p.replies {
		if reply.Done() == nil && p.r.votes(i) {
			n++
		}
	}
	return n
}

// unsure says whether a node that has failed may have done what it was asked for.
func unsure(errs []error) bool {
	return slices.ContainsFunc(errs, func(err error) bool { return err != nil && definite(err) == nil })
}
