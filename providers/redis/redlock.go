package redislease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
)

// redlock is the topology of several nodes that know nothing of each other: a
// claim holds a name while a majority of them says so.
//
// It follows redis.io/docs/latest/develop/clients/patterns/distributed-locks, "The
// Redlock algorithm", and adds what that page asks for and leaves to others: a
// fencing token on which a majority agrees (redlock_agreement.go), nodes that stay
// out after they have lost data (scripts/prelude.lua), and an undo that can't hit a
// later attempt (scripts/undo.lua).
type redlock struct {
	nodes   []*node
	peers   []peer // what this process has seen of each node
	naming  naming
	options redlockOptions
	quorum  int // a majority
	began   time.Time
	tries   atomic.Int64
	claims  claims
	servers servers
	after   aftermath
}

// redlockOptions are validated by Options.
type redlockOptions struct {
	nodeTimeout time.Duration // 0: see patience
	maxTTL      time.Duration
}

// peer is what this process has seen of a node.
type peer struct {
	label string // "server 2 of 3 (10.0.0.2:6379)"
	// silent is set while its latest request was not answered: nobody waits for
	// it then who can do without.
	silent atomic.Bool
	// lead is its clock less ours as of its latest vote, in microseconds, and at
	// most too high by the request's time on its way; 0 if there was none yet.
	lead atomic.Int64
	// mute is until when it casts no vote since it has lost its data, as it has said, in
	// nanoseconds of ours.
	mute atomic.Int64
	// deaf is until when not to wait for its subscription, in nanoseconds of ours.
	deaf atomic.Int64
}

func newRedlock(nodes []*node, n naming, o redlockOptions) *redlock {
	r := &redlock{
		nodes: nodes, peers: make([]peer, len(nodes)), naming: n, options: o,
		quorum: len(nodes)/2 + 1, began: time.Now(),
	}
	r.servers.init(len(nodes))
	for i, d := range nodes {
		d.member.met = func(a admission) error { return r.servers.meet(i, a) }
		r.peers[i].label = fmt.Sprintf("server %d of %d", i+1, len(nodes))
		if client, ok := d.client.(*redis.Client); ok {
			r.peers[i].label += " (" + client.Options().Addr + ")"
		}
	}
	r.tries.Store(rand.Int64N(tryStep)) // the same in each of its attempts
	return r
}

// tryStep keeps the attempts of different processes apart: those of one are
// equal in what is below it, by which scripts/undo.lua knows them.
const tryStep = 1 << 20

// newTry is the number of an attempt, greater than those of this process before it.
func (r *redlock) newTry() int64 { return r.tries.Add(tryStep) }

// pass makes the next attempt's number greater than another process's.
func (r *redlock) pass(try int64) {
	for {
		own := r.tries.Load()
		ahead := try/tryStep - own/tryStep
		if ahead < 0 || r.tries.CompareAndSwap(own, own+(ahead+1)*tryStep) {
			return
		}
	}
}

const (
	// maxPatience bounds how long a node is waited for, where that matters.
	maxPatience = time.Second
	// minPatience is a pause of a busy machine, and of Go's collector.
	minPatience = 100 * time.Millisecond
)

// patience is how long one node is waited for while others can't decide: a tenth
// of the TTL, within bounds.
func (r *redlock) patience(ttl time.Duration) time.Duration {
	if r.options.nodeTimeout > 0 {
		return min(r.options.nodeTimeout, ttl/2)
	}
	return min(max(ttl/10, minPatience), ttl/3, maxPatience)
}

// validity is how long a lease that a majority has granted is one, counted from
// before the first request: its TTL less what clocks may differ by meanwhile
// (redis.io, as above: "MIN_VALIDITY").
func validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// ahead is how far tokens are ahead of the latest clock of all nodes, so that nodes
// whose requests have been on their way for a little longer make the same. In
// microseconds.
const ahead = 5000

// micros is our own clock, in microseconds since the redlock began.
func (r *redlock) micros() int64 { return time.Since(r.began).Microseconds() }

// floor is the least token that nodes should make up, if that is known.
func (r *redlock) floor() int64 {
	var lead int64
	for i := range r.peers {
		if p := &r.peers[i]; !p.silent.Load() {
			lead = max(lead, p.lead.Load())
		}
	}
	if lead == 0 {
		return 0
	}
	return r.micros() + lead + ahead
}

// heard notes whether a node has answered.
func (r *redlock) heard(i int, answered bool) {
	if p := &r.peers[i]; p.silent.Load() == answered {
		p.silent.Store(!answered)
	}
}

// muted notes that a node casts no vote for now, if that is what an error says.
func (r *redlock) muted(i int, err error) {
	var quarantined *quarantinedError
	if errors.As(err, &quarantined) {
		r.peers[i].mute.Store(int64(time.Since(r.began) + quarantined.left))
	}
}

// votes says whether a node casts votes, as far as is known.
func (r *redlock) votes(i int) bool { return int64(time.Since(r.began)) >= r.peers[i].mute.Load() }

// label says which node an error is of.
func (r *redlock) label(i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", r.peers[i].label, err)
}

// ping succeeds when a majority answers.
func (r *redlock) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.patience(r.options.maxTTL))
	defer cancel()
	if err := r.meetServers(ctx); err != nil {
		return err
	}
	type pong struct {
		i   int
		err error
	}
	pongs := make(chan pong, len(r.nodes))
	for i, d := range r.nodes {
		if !r.after.start(func() { pongs <- pong{i, d.ping(ctx)} }) {
			return abstractions.ErrClosed
		}
	}
	errs, answered := make([]error, len(r.nodes)), 0
	for range r.nodes {
		p := <-pongs
		if errs[p.i] = p.err; p.err == nil {
			if answered++; answered == r.quorum {
				return nil
			}
		}
	}
	return r.failed(errs, false)
}

func (r *redlock) close() {
	r.after.close()
	var all sync.WaitGroup
	for _, d := range r.nodes {
		all.Go(d.close)
	}
	all.Wait()
}

// aftermath owns what goes on after a call has returned: answers that came too
// late, of nodes that have to be told the outcome. Each is bounded.
type aftermath struct {
	mu     sync.Mutex
	closed bool
	all    sync.WaitGroup
}

// start runs a function beside the caller, unless close was called.
func (a *aftermath) start(run func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.all.Go(run)
	return true
}

// close waits for what was started.
func (a *aftermath) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.all.Wait()
}
