package redislease

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/redis/go-redis/v9"
)

const (
	// maxOperations is the most operations in one call: the server does nothing
	// else meanwhile, a quarter of a millisecond for so many.
	maxOperations = 256
	// maxFlights is how many calls of a lane are under way at a time. What comes
	// meanwhile shares the next one.
	maxFlights = 2
	// stuck is how long calls may take before others are sent beside them: a
	// connection that has died must not hold up what another one could carry.
	stuck = 250 * time.Millisecond
	// maxStuck bounds the calls of a lane altogether.
	maxStuck = 64
)

// lanes combine the requests that a process makes at the same time into one
// call. On a Cluster there is a lane for each master, so that one that hangs
// does not hold up what the others could do.
type lanes struct {
	node    *node
	workers sync.WaitGroup
	known   atomic.Bool // the client knows the Cluster

	mu       sync.Mutex
	byMaster map[*redis.Client]*lane // of a Cluster; elsewhere the one lane has no master
	closed   bool
}

// lane is a queue of requests and the workers that take from it.
type lane struct {
	lanes *lanes
	wake  chan struct{} // has room for every worker

	mu      sync.Mutex
	pending []*request
	workers int  // that exist
	idle    int  // of them, those that wait for a wake-up
	direct  int  // calls on their callers' own goroutines
	flights int  // calls under way
	late    int  // of them, those that take longer than stuck: no reason to wait any more
	round   int  // counts how often calls were found to be late
	slow    bool // the last call took longer than a direct one should
	closed  bool
	overdue *time.Timer // armed while requests wait and all workers are busy
}

// request is some operations that belong together: of one master, and sent in
// one call.
type request struct {
	ops  []*operation
	ctx  context.Context // its values are for what traces calls
	by   time.Time       // when the sender gives it up
	tag  int             // the sender's own
	done chan<- *request
}

// laneFor returns the lane of an operation's key.
func (ls *lanes) laneFor(ctx context.Context, op *operation) (*lane, error) {
	master, err := ls.masterFor(ctx, op.keys[0])
	if err != nil {
		return nil, failure(err)
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		return nil, abstractions.ErrClosed
	}
	l := ls.byMaster[master]
	if l == nil {
		if ls.byMaster == nil {
			ls.byMaster = map[*redis.Client]*lane{}
		}
		l = &lane{lanes: ls, wake: make(chan struct{}, maxStuck)}
		ls.byMaster[master] = l
	}
	return l, nil
}

// masterFor returns the master of a key on a Cluster, else nil. Until the client knows
// the Cluster it asks a server that is maybe frozen, and does not hear of ctx.
func (ls *lanes) masterFor(ctx context.Context, key string) (*redis.Client, error) {
	cluster := ls.node.cluster
	if cluster == nil {
		return nil, nil
	}
	if ls.known.Load() {
		return cluster.MasterForKey(ctx, key)
	}
	type answer struct {
		master *redis.Client
		err    error
	}
	answers := make(chan answer, 1)
	ls.mu.Lock()
	if ls.closed {
		ls.mu.Unlock()
		return nil, abstractions.ErrClosed
	}
	ls.workers.Go(func() {
		master, err := cluster.MasterForKey(ctx, key)
		answers <- answer{master, err}
	})
	ls.mu.Unlock()
	select {
	case a := <-answers:
		if a.err == nil {
			ls.known.Store(true)
		}
		return a.master, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close refuses what comes, and what waits, and lets calls under way end.
func (ls *lanes) close() {
	ls.mu.Lock()
	ls.closed = true
	all := slices.Collect(maps.Values(ls.byMaster))
	ls.mu.Unlock()
	for _, l := range all {
		l.close()
	}
	ls.workers.Wait()
}

func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.overdue != nil {
		l.overdue.Stop()
	}
	for _, r := range l.pending {
		r.fail(abstractions.ErrClosed) // it was not sent
	}
	l.pending = nil
	for ; l.idle > 0; l.idle-- {
		l.wake <- struct{}{}
	}
}

// fail ends a request that was not sent.
func (r *request) fail(err error) {
	for _, op := range r.ops {
		op.reply = reply{err: err}
	}
	r.done <- r
}

// do runs an operation and waits for it, or for the end of ctx, which needs a
// deadline. The operation has its reply if there is no error; otherwise a worker
// may still have it.
func (ls *lanes) do(ctx context.Context, op *operation) error {
	l, err := ls.laneFor(ctx, op)
	if err != nil {
		return err
	}
	by, _ := ctx.Deadline()
	if l.callDirectly(ctx, op, by) {
		return nil
	}
	before := op.reply.err // it has been sent then
	done := make(chan *request, 1)
	r := &request{ops: []*operation{op}, ctx: ctx, by: by, done: done}
	if err := l.queue(r); err != nil {
		return err
	}
	select {
	case <-done:
		op.reply.err = resent(before, op.reply.err)
		return nil
	case <-ctx.Done():
	}
	l.withdraw(r)
	select {
	case <-done: // in the end
		op.reply.err = resent(before, op.reply.err)
		return nil
	default:
		return failure(ctx.Err())
	}
}

// resent is the error of an operation that has been sent before, if that one left its
// outcome unknown.
func resent(before, err error) error {
	if before == nil || abstractions.NotApplied(before) {
		return err
	}
	return providerkit.Partial(err)
}

// doAll runs operations in as few calls as possible, one beside the other, and
// returns their replies. Those that are not there when ctx ends are errors.
func (ls *lanes) doAll(ctx context.Context, ops []operation) []reply {
	replies := make([]reply, len(ops))
	if len(ops) == 1 {
		if replies[0].err = ls.do(ctx, &ops[0]); replies[0].err == nil {
			replies[0] = ops[0].reply
		}
		return replies
	}
	groups := ls.group(ctx, ops)
	done := make(chan *request, len(groups))
	by, _ := ctx.Deadline()
	sent := make(map[*request]*lane, len(groups))
	for tag, group := range groups {
		r := &request{ops: make([]*operation, len(group)), ctx: ctx, by: by, tag: tag, done: done}
		for i, at := range group {
			r.ops[i] = &ops[at]
			replies[at].err = errNoReply
		}
		l, err := ls.start(r)
		if err != nil {
			for _, at := range group {
				replies[at].err = err
			}
			continue
		}
		sent[r] = l
	}
	for len(sent) > 0 {
		r := await(ctx, done, sent)
		if r == nil {
			break
		}
		for i, at := range groups[r.tag] {
			replies[at] = r.ops[i].reply
		}
		delete(sent, r)
	}
	return replies
}

// await returns a request that is done. After the end of ctx it takes back what
// was not sent, and returns nil when no more of them are done.
func await(ctx context.Context, done <-chan *request, sent map[*request]*lane) *request {
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	for r, l := range sent {
		l.withdraw(r)
	}
	select {
	case r := <-done:
		return r
	default:
		return nil
	}
}

// group divides operations, by their places, into those that may share a call.
func (ls *lanes) group(ctx context.Context, ops []operation) [][]int {
	if ls.node.cluster == nil {
		return slices.Collect(slices.Chunk(places(len(ops)), maxOperations))
	}
	var groups [][]int
	open := map[*lane]int{} // the group of a lane that has room
	for at := range ops {
		l, err := ls.laneFor(ctx, &ops[at])
		g, ok := open[l]
		if err != nil || !ok || len(groups[g]) == maxOperations {
			g = len(groups)
			groups = append(groups, make([]int, 0, min(len(ops)-at, maxOperations)))
			open[l] = g
		}
		groups[g] = append(groups[g], at)
	}
	return groups
}

// places are the numbers from 0 to n-1.
func places(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// start queues a request. Its operations have their replies when it comes back
// on r.done, which must have room for it.
func (ls *lanes) start(r *request) (*lane, error) {
	l, err := ls.laneFor(r.ctx, r.ops[0])
	if err != nil {
		return nil, err
	}
	return l, l.queue(r)
}

// queue has a worker send a request.
func (l *lane) queue(r *request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return abstractions.ErrClosed
	}
	l.pending = append(l.pending, r)
	if l.busy() < maxFlights && (l.idle > 0 || l.workers < maxStuck) {
		l.summon()
	} else if len(l.pending) == 1 {
		l.expect()
	}
	return nil
}

// busy is how many calls are under way that are not late. Caller holds mu.
func (l *lane) busy() int { return l.workers - l.idle + l.direct - l.late }

// summon has a worker look at what is pending. Caller holds mu.
func (l *lane) summon() {
	if l.idle == 0 {
		l.hire()
		return
	}
	l.idle--
	l.wake <- struct{}{}
}

// withdraw takes a request back that was not sent yet.
func (l *lane) withdraw(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.pending, r); i >= 0 {
		l.pending = slices.Delete(l.pending, i, i+1)
	}
}

// hire adds a worker. Caller holds mu.
func (l *lane) hire() {
	l.workers++
	l.lanes.workers.Add(1)
	go l.work()
}

// expect sees to it that what waits is sent even if no worker comes back. Caller holds mu.
func (l *lane) expect() {
	if l.overdue == nil {
		l.overdue = time.AfterFunc(stuck, l.insist)
		return
	}
	l.overdue.Reset(stuck)
}

// insist sends what waits beside the calls that are under way: they have all
// begun before it came.
func (l *lane) insist() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 || l.closed {
		return
	}
	l.late = l.flights
	l.round++
	if l.workers >= maxStuck {
		return
	}
	l.hire()
	l.expect()
}

// work sends what is pending until the lane closes, or until there are enough
// others and nothing to do.
func (l *lane) work() {
	defer l.lanes.workers.Done()
	var batch []*request
	var ops []*operation
	for {
		var round int
		if batch, round = l.take(batch); len(batch) == 0 {
			return
		}
		if batch = inTime(batch); len(batch) == 0 {
			l.landed(round)
			continue
		}
		for _, r := range batch {
			ops = append(ops, r.ops...)
		}
		began := time.Now()
		l.lanes.node.send(flight(batch), ops)
		l.took(time.Since(began))
		l.landed(round)
		for _, r := range batch {
			r.done <- r
		}
		clear(batch)
		clear(ops)
		batch, ops = batch[:0], ops[:0]
	}
}

// errUnsent is for a request that its sender had given up before it was its turn.
var errUnsent = providerkit.MarkNotApplied(fmt.Errorf("%w: the request was not sent in time", abstractions.ErrUnavailable))

// inTime leaves out the requests that their senders have given up: they are not
// sent after that.
func inTime(batch []*request) []*request {
	now := time.Now()
	return slices.DeleteFunc(batch, func(r *request) bool {
		if r.by.After(now) {
			return false
		}
		r.fail(errUnsent)
		return true
	})
}

// take waits for requests and adds those that make up the next call to the
// batch; none if the worker is to go. The call lasts until it has landed.
func (l *lane) take(batch []*request) (_ []*request, round int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) == 0 {
		if l.closed || l.workers-l.late > maxFlights {
			l.workers--
			return nil, 0
		}
		l.idle++
		l.mu.Unlock()
		<-l.wake
		l.mu.Lock()
	}
	n, size := 1, len(l.pending[0].ops)
	for n < len(l.pending) && size+len(l.pending[n].ops) <= maxOperations {
		size += len(l.pending[n].ops)
		n++
	}
	batch = append(batch, l.pending[:n]...)
	l.pending = slices.Delete(l.pending, 0, n)
	switch {
	case len(l.pending) > 0:
		l.expect()
	case l.overdue != nil:
		l.overdue.Stop()
	}
	l.flights++
	return batch, l.round
}

// landed notes the end of a call that began in a round.
func (l *lane) landed(round int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flights--
	if round < l.round {
		l.late--
	}
}

// flight is the context of a call. It ends with none of the senders, only when
// the last of them has given up.
func flight(batch []*request) context.Context {
	c := flightContext{Context: context.Background()}
	if len(batch) == 1 {
		c.Context = context.WithoutCancel(batch[0].ctx) // for what traces calls
	}
	for _, r := range batch {
		if r.by.After(c.by) {
			c.by = r.by
		}
	}
	return c
}

// flightContext has a deadline and no timer: go-redis gives the deadline to the
// connection.
type flightContext struct {
	context.Context
	by time.Time
}

func (c flightContext) Deadline() (time.Time, bool) { return c.by, true }
