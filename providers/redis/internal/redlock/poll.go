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
	by      time.Time       // until when nodes are waited for
	short   bool            // the caller left the nodes less time than is usual
	timer   *time.Timer
	done    chan *node.Request // has room for all requests that may be under way
	asked   []int              // requests under way, by node
	open    int                // all of them
	replies [][]script.Reply   // of a poll by ask: of each operation, by node
}

// newPoll makes one of so many operations for each node at a time.
func (r *Redlock) newPoll(ctx context.Context, patience time.Duration, operations int) *poll {
	requests := (operations + batch.MaxOperations - 1) / batch.MaxOperations
	p := &poll{r: r, ctx: ctx, done: make(chan *node.Request, requests*len(r.nodes)), asked: make([]int, len(r.nodes))}
	p.setTime(patience)
	p.timer = time.NewTimer(patience)
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

// send sends operations to a node, of which the first is the first-th of the poll. It can't after Close.
func (p *poll) send(i, first int, ops ...*script.Operation) error {
	q := &node.Request{Ops: ops, Context: p.ctx, By: p.by, Tag: first*len(p.asked) + i, Done: p.done}
	if err := p.r.nodes[i].Start(q); err != nil {
		return err
	}
	p.asked[i]++
	p.open++
	return nil
}

// next returns an answer, and whose it is; or nil, when it is time or ctx has ended.
func (p *poll) next(ctx context.Context, until time.Time) (q *node.Request, i int) {
	if p.by.Before(until) {
		until = p.by
	}
	p.timer.Reset(time.Until(until))
	select {
	case q = <-p.done:
		i = q.Tag % len(p.asked)
		p.asked[i]--
		p.open--
		err := q.Ops[0].Reply.Err
		p.heard(i, err == nil || certainty(err) != nil)
	case <-ctx.Done():
	case <-p.timer.C:
		for i, asked := range p.asked {
			if asked > 0 && p.over() {
				p.heard(i, false)
			}
		}
	}
	return q, i
}

// over says that nobody is waited for any more.
func (p *poll) over() bool { return !time.Now().Before(p.by) }

// heard notes whether a node has answered, in the time that is usual.
func (p *poll) heard(i int, answered bool) {
	if d := &p.r.peers[i]; d.silent.Load() == answered && (answered || !p.short) {
		d.silent.Store(!answered)
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

// ask puts operations to all nodes, and collects the replies until there are enough, the time is over or the caller
// leaves.
func (r *Redlock) ask(ctx context.Context, patience time.Duration, enough func(p *poll) bool, ops ...script.Operation) *poll {
	p := r.newPoll(ctx, patience, len(ops))
	replies := slices.Repeat([]script.Reply{{Err: errSilent}}, len(ops)*len(r.nodes))
	p.replies = slices.Collect(slices.Chunk(replies, len(r.nodes)))
	for _, i := range slices.Backward(r.servers.all.Load().order) { // the first has the queue: let others know before it wakes somebody
		list := make([]*script.Operation, len(ops))
		for k, op := range ops {
			list[k] = &op
		}
		for first := 0; first < len(list); first += batch.MaxOperations {
			part := list[first:min(first+batch.MaxOperations, len(list))]
			if err := p.send(i, first, part...); err != nil {
				for k := range part {
					p.replies[first+k][i].Err = err
				}
			}
		}
	}
	for p.open > 0 && !enough(p) {
		q, i := p.next(ctx, p.by)
		if q == nil {
			break
		}
		for k, op := range q.Ops {
			p.replies[q.Tag/len(p.asked)+k][i] = op.Reply
		}
	}
	return p
}

// all is for questions whose answer is better the more nodes have answered: it waits
// for those that usually do.
func (p *poll) all() bool { return len(p.asked)-p.open >= p.r.quorum && !p.waits() }

// read reads the replies to a poll of one operation: what nodes say, and by node why others don't.
func read[T any](p *poll, as func(script.Reply) (T, error)) (said []T, errs []error) {
	errs = make([]error, len(p.asked))
	for i, reply := range p.replies[0] {
		one, err := as(reply)
		if errs[i] = err; err == nil {
			said = append(said, one)
		}
	}
	return said, errs
}

// unsure says whether a node that has failed may have done what it was asked for.
func unsure(errs []error) bool {
	return slices.ContainsFunc(errs, func(err error) bool { return err != nil && definite(err) == nil })
}
