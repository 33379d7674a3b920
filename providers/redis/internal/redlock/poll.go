package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// errSilent is the error of a node that has not answered in time.
var errSilent = fmt.Errorf("%w: no answer in time", abstractions.ErrUnavailable)

// poll sends a request to all nodes at the same time, and collects the answers. It belongs to one goroutine, except
// for the fields that mu guards.
type poll struct {
	r       *Redlock
	ctx     context.Context // its values serve the tracing of calls
	by      time.Time       // end of the nodes' time
	short   bool            // the caller's deadline leaves the nodes less than the usual time
	timer   *time.Timer
	asked   []int          // requests in flight, by node
	open    int            // all requests without an answer
	sent    []sent         // by node
	replies []script.Reply // the replies to each operation of ask, by node

	answer   func(*node.Request) // push
	ready    chan struct{}       // there are as many answers as needed
	mu       sync.Mutex
	answered []*node.Request // answers not processed yet
	need     int             // number of answers after which ready gets a signal
}

// sent holds the latest operations for a node. The next request reuses its memory.
type sent struct {
	ops      []script.Operation
	list     []*script.Operation
	requests []node.Request
}

func (r *Redlock) newPoll(ctx context.Context, timeout time.Duration) *poll {
	p, _ := r.polls.Get().(*poll)
	if p == nil {
		n := len(r.nodes)
		p = &poll{r: r, timer: time.NewTimer(timeout), asked: make([]int, n), sent: make([]sent, n), ready: make(chan struct{}, 1)}
		p.answer = p.push
	}
	p.ctx = ctx
	p.setTime(timeout)
	return p
}

// recycle ends the poll. The poll is reused if nothing is in flight.
func (p *poll) recycle() {
	if p.open == 0 {
		p.timer.Stop()
		p.r.polls.Put(p)
	}
}

// setTime restarts the time that nodes have to answer, within the caller's deadline.
func (p *poll) setTime(timeout time.Duration) {
	p.by, p.short = time.Now().Add(timeout), false
	if by, ok := p.ctx.Deadline(); ok && by.Before(p.by) {
		p.by, p.short = by, true
	}
}

// send sends operations to a node that has no request in flight. It fails after Close.
func (p *poll) send(i int, ops ...script.Operation) error {
	s := &p.sent[i]
	s.ops, s.list, s.requests = append(s.ops[:0], ops...), s.list[:0], s.requests[:0]
	for k := range s.ops {
		s.list = append(s.list, &s.ops[k])
	}
	s.requests = slices.Grow(s.requests, len(ops)/batch.MaxOperations+1)
	for first := 0; first < len(ops); first += batch.MaxOperations {
		part := s.list[first:min(first+batch.MaxOperations, len(ops))]
		s.requests = append(s.requests, node.Request{Ops: part, Context: p.ctx, By: p.by, Tag: first*len(p.asked) + i, Done: p.answer})
		if err := p.r.nodes[i].Start(&s.requests[len(s.requests)-1]); err != nil {
			return err
		}
		p.asked[i]++
		p.open++
	}
	return nil
}

// push records an answer. Locks mu.
func (p *poll) push(q *node.Request) {
	p.mu.Lock()
	p.answered = append(p.answered, q)
	ring := len(p.answered) == p.need
	p.mu.Unlock()
	if ring {
		select {
		case p.ready <- struct{}{}:
		default:
		}
	}
}

// pop removes and returns an answer. If there is none, ready gets a signal with the answer that makes a majority, and with each answer after
// the majority: fewer answers rarely decide. Locks mu.
func (p *poll) pop() *node.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.answered) > 0 {
		q := p.answered[0]
		p.answered = slices.Delete(p.answered, 0, 1)
		return q
	}
	p.need = p.r.quorum
	for _, asked := range p.asked {
		if asked == 0 {
			p.need--
		}
	}
	p.need = max(p.need, 1)
	return nil
}

// fastAnswer is the time for which a poll waits only for ready: most answers arrive in this time. Afterwards it also checks for
// answers without a majority, and for the end of its caller's context: many contexts allocate a channel, and a timer, when Done
// is called.
const fastAnswer = 10 * time.Millisecond

// next returns an answer and its node, or nil when the time is over or ctx has ended.
func (p *poll) next(ctx context.Context, until time.Time) (q *node.Request, i int) {
	if p.by.Before(until) {
		until = p.by
	}
	var left <-chan struct{}
	wait := min(fastAnswer, time.Until(until))
	for over := false; !over; {
		if q = p.pop(); q != nil {
			break
		}
		p.timer.Reset(wait)
		select {
		case <-p.ready:
		case <-left:
			over = true
		case <-p.timer.C:
			left, wait = ctx.Done(), time.Until(until)
			over = wait <= 0
		}
	}
	if q == nil {
		q = p.pop()
	}
	switch {
	case q != nil:
		i = q.Tag % len(p.asked)
		p.asked[i]--
		p.open--
		err := q.Ops[0].Reply.Err
		p.noteSilence(i, err == nil || certainty(err) != nil)
	case p.isOver():
		for i, asked := range p.asked {
			if asked > 0 {
				p.noteSilence(i, false)
			}
		}
	}
	return q, i
}

// isOver reports whether the nodes' time has ended.
func (p *poll) isOver() bool { return !time.Now().Before(p.by) }

// noteSilence records whether a node has answered in the usual time.
func (p *poll) noteSilence(i int, answered bool) {
	if d := &p.r.peers[i]; d.silent.Load() == answered && (answered || !p.short) {
		d.silent.Store(!answered)
	}
}

// isWaiting reports whether a request is in flight to a node that usually answers.
func (p *poll) isWaiting() bool {
	for i, asked := range p.asked {
		if asked > 0 && !p.r.peers[i].silent.Load() {
			return true
		}
	}
	return false
}

// ask sends operations to all nodes, and collects the replies until there are enough, the time is over or the caller
// leaves.
func (r *Redlock) ask(ctx context.Context, timeout time.Duration, enough func(p *poll) bool, ops ...script.Operation) *poll {
	p := r.newPoll(ctx, timeout)
	p.replies = p.replies[:0]
	for range len(ops) * len(r.nodes) {
		p.replies = append(p.replies, script.Reply{Err: errSilent})
	}
	for _, i := range slices.Backward(r.servers.all.Load().order) { // the first node has the queue: the others must have a release before the first node wakes a waiter
		if err := p.send(i, ops...); err != nil {
			for k := range ops {
				p.of(k)[i].Err = err
			}
		}
	}
	for p.open > 0 && !enough(p) {
		q, i := p.next(ctx, p.by)
		if q == nil {
			break
		}
		for k, op := range q.Ops {
			p.of(q.Tag/len(p.asked) + k)[i] = op.Reply
		}
	}
	return p
}

// of returns the replies to an operation, by node.
func (p *poll) of(operation int) []script.Reply {
	n := len(p.asked)
	return p.replies[operation*n : (operation+1)*n]
}

// all reports whether a majority and all nodes that usually answer have answered. It is for
// requests whose result improves with each answer.
func (p *poll) all() bool { return len(p.asked)-p.open >= p.r.quorum && !p.isWaiting() }

// read returns the values in the replies to a poll of one operation, and the errors of the other nodes, by node.
func read[T any](p *poll, as func(script.Reply) (T, error)) (said []T, errs []error) {
	errs = make([]error, len(p.asked))
	for i, reply := range p.of(0) {
		one, err := as(reply)
		if errs[i] = err; err == nil {
			said = append(said, one)
		}
	}
	return said, errs
}
