package redlock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
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
	done    chan *node.Request // has room for an answer of each node
	asked   []bool             // who has a request under way
	open    int                // how many have
	replies []script.Reply     // of a poll by ask; the latest
	heard   int                // answers to it
}

func (r *Redlock) newPoll(ctx context.Context, patience time.Duration) *poll {
	p := &poll{r: r, ctx: ctx, done: make(chan *node.Request, len(r.nodes)), asked: make([]bool, len(r.nodes))}
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

// send sends operations to a node that has no request under way.
func (p *poll) send(i int, ops ...*script.Operation) error {
	if err := p.r.nodes[i].Start(&node.Request{Ops: ops, Context: p.ctx, By: p.by, Tag: i, Done: p.done}); err != nil {
		return err
	}
	p.asked[i] = true
	p.open++
	return nil
}

// took notes an answer, and returns whose it is.
func (p *poll) took(q *node.Request) int {
	p.asked[q.Tag] = false
	p.open--
	if err := q.Ops[0].Reply.Err; err == nil || certainty(err) != nil {
		p.r.heard(q.Tag, true)
	} else if !p.short {
		p.r.heard(q.Tag, false)
	}
	return q.Tag
}

// gaveUp notes that the time is over for those who have not answered.
func (p *poll) gaveUp() {
	for i, asked := range p.asked {
		if asked && !p.short {
			p.r.heard(i, false)
		}
	}
}

// waits says whether somebody is asked who usually answers.
func (p *poll) waits() bool {
	for i, asked := range p.asked {
		if asked && !p.r.peers[i].silent.Load() {
			return true
		}
	}
	return false
}

// ask puts an operation to all nodes and collects replies until enough says so,
// all have answered, the time is over or ctx ends.
func (r *Redlock) ask(ctx context.Context, patience time.Duration, op script.Operation, enough func(p *poll) bool) *poll {
	p := r.newPoll(ctx, patience)
	p.replies = make([]script.Reply, len(r.nodes))
	ops := make([]script.Operation, len(r.nodes))
	for _, i := range slices.Backward(r.inOrder()) { // the first has the queue: let others know before it wakes somebody
		ops[i] = op
		p.replies[i].Err = errSilent
		if err := p.send(i, &ops[i]); err != nil {
			p.replies[i].Err = err
		}
	}
	timer := time.NewTimer(time.Until(p.by))
	defer timer.Stop()
	for p.open > 0 && !enough(p) {
		timer.Reset(time.Until(p.by))
		select {
		case q := <-p.done:
			p.replies[p.took(q)] = q.Ops[0].Reply
			p.heard++
		case <-timer.C:
			p.gaveUp()
			return p
		case <-ctx.Done():
			return p
		}
	}
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
