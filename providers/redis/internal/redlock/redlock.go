// Package redlock implements the topology of a majority of independent servers: see
// package redislease, "Redlock".
package redlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Redlock is the topology of several independent nodes: a claim holds a name while a majority
// of the nodes holds the claim. agreement.go explains why this is safe.
type Redlock struct {
	nodes []*node.Node
	peers []peer // this process' view of each node
	Options
	quorum     int // a majority
	began      time.Time
	servers    *servers
	background node.Background
	polls      sync.Pool // of *poll
	waiters    sync.Map  // of *waiter, by the claim's ID
}

// Options are validated by redislease.Options.
type Options struct {
	Naming      script.Naming
	NodeTimeout time.Duration // 0: see nodeTimeout
	MaxTTL      time.Duration
}

// peer is this process' view of a node.
type peer struct {
	label string // "server 2 of 3 (10.0.0.2:6379)"
	// silent is set if the node did not answer the latest request in the usual time. Calls that can
	// decide without a silent node don't wait for its answer.
	silent atomic.Bool
	// clockLead is the node's clock minus ours at its latest vote, in microseconds. It is too
	// high by at most the request's travel time, and 0 before the first vote.
	clockLead atomic.Int64
}

// New makes a Redlock of these servers. timely says that clients end a call when its
// context's deadline passes.
func New(clients []redis.UniversalClient, timely bool, o Options) *Redlock {
	r := &Redlock{
		nodes: make([]*node.Node, len(clients)), peers: make([]peer, len(clients)), Options: o,
		quorum: len(clients)/2 + 1, began: time.Now(),
		servers: &servers{seen: make([]script.Admission, len(clients))},
	}
	_ = r.servers.record(0, script.Admission{}) // makes the first roster
	for i, client := range clients {
		r.nodes[i] = node.NewMember(client, timely, o.Naming, o.MaxTTL, func(a script.Admission) error { return r.servers.record(i, a) })
		r.peers[i].label = fmt.Sprintf("server %d of %d", i+1, len(clients))
		if client, ok := client.(*redis.Client); ok {
			r.peers[i].label += " (" + client.Options().Addr + ")"
		}
	}
	return r
}

const (
	// maxNodeTimeout bounds the wait for one node, while others can't decide.
	maxNodeTimeout = time.Second
	// minNodeTimeout covers a pause of a busy machine, or of Go's garbage collector.
	minNodeTimeout = 100 * time.Millisecond
)

// nodeTimeout returns the time to wait for one node while others can't decide: a tenth
// of the TTL, within bounds.
func (r *Redlock) nodeTimeout(ttl time.Duration) time.Duration {
	if r.NodeTimeout > 0 {
		return min(r.NodeTimeout, ttl/2)
	}
	return min(max(ttl/10, minNodeTimeout), ttl/3, maxNodeTimeout)
}

// validity returns the time for which a majority's grant is a lease, counted from
// before the first request: its TTL minus the possible difference of the clocks
// (redis.io/docs/latest/develop/clients/patterns/distributed-locks, "MIN_VALIDITY").
func validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// micros returns the time by our own clock, in microseconds since this Redlock was made.
func (r *Redlock) micros() int64 { return time.Since(r.began).Microseconds() }

// tokenLead is the time by which a proposed token is ahead of the nodes' clocks, since a request may be slower
// than the previous request. For a name without a record, a node accepts no token that is behind its clock.
const tokenLead = time.Millisecond

// floor returns the token that requests for votes propose. It is later than every node's clock, or 0 if no clock is known.
func (r *Redlock) floor() int64 {
	var lead int64
	for i := range r.peers {
		if p := &r.peers[i]; !p.silent.Load() {
			lead = max(lead, p.clockLead.Load())
		}
	}
	if lead == 0 {
		return 0
	}
	return r.micros() + lead + tokenLead.Microseconds()
}

// label adds the node's label to an error.
func (r *Redlock) label(i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", r.peers[i].label, err)
}

// Ping succeeds when a majority answers. A node in quarantine counts.
func (r *Redlock) Ping(ctx context.Context) error {
	if err := r.checkServers(ctx); err != nil {
		return err
	}
	p := r.ask(ctx, r.nodeTimeout(r.MaxTTL), (*poll).all, r.hello())
	answers, errs := read(p, func(reply script.Reply) (none struct{}, err error) {
		if reply.Read().Status != script.Quarantined {
			_, err = reply.Record("")
		}
		return none, err
	})
	if len(answers) < r.quorum {
		return r.majorityError(ctx, errs, false)
	}
	return nil
}

// hello returns an operation that changes nothing. Its answer names the server's run.
func (r *Redlock) hello() script.Operation { return r.Naming.Keys("hello").Inspect() }

// Close ends the work that outlives a request.
func (r *Redlock) Close() {
	r.background.Close()
	var all providerkit.Group
	for _, d := range r.nodes {
		all.Go(func() error { d.Close(); return nil }, nil)
	}
	all.Wait()
}
