// Package redlock is the topology of a majority of independent servers: see package
// redislease, "Redlock".
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

// Redlock is the topology of several nodes that know nothing of each other: a
// claim holds a name while a majority of them says so. agreement.go has the argument.
type Redlock struct {
	nodes []*node.Node
	peers []peer // what this process has seen of each node
	Options
	quorum  int // a majority
	began   time.Time
	servers *servers
	after   node.Aftermath
	spare   sync.Pool // of *poll
	seats   sync.Map  // of *seat, by the claim's ID
}

// Options are validated by Options.
type Options struct {
	Naming      script.Naming
	NodeTimeout time.Duration // 0: see patience
	MaxTTL      time.Duration
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
}

// New makes a Redlock of these servers. timely says that clients end a call when its
// context's deadline passes.
func New(clients []redis.UniversalClient, timely bool, o Options) *Redlock {
	r := &Redlock{
		nodes: make([]*node.Node, len(clients)), peers: make([]peer, len(clients)), Options: o,
		quorum: len(clients)/2 + 1, began: time.Now(),
		servers: &servers{seen: make([]script.Admission, len(clients))},
	}
	_ = r.servers.meet(0, script.Admission{}) // makes the first roster
	for i, client := range clients {
		r.nodes[i] = node.NewMember(client, timely, o.Naming, o.MaxTTL, func(a script.Admission) error { return r.servers.meet(i, a) })
		r.peers[i].label = fmt.Sprintf("server %d of %d", i+1, len(clients))
		if client, ok := client.(*redis.Client); ok {
			r.peers[i].label += " (" + client.Options().Addr + ")"
		}
	}
	return r
}

const (
	// maxPatience bounds how long a node is waited for, where that matters.
	maxPatience = time.Second
	// minPatience is a pause of a busy machine, and of Go's collector.
	minPatience = 100 * time.Millisecond
)

// patience is how long one node is waited for while others can't decide: a tenth
// of the TTL, within bounds.
func (r *Redlock) patience(ttl time.Duration) time.Duration {
	if r.NodeTimeout > 0 {
		return min(r.NodeTimeout, ttl/2)
	}
	return min(max(ttl/10, minPatience), ttl/3, maxPatience)
}

// validity is how long a lease that a majority has granted is one, counted from
// before the first request: its TTL less what clocks may differ by meanwhile
// (redis.io, as above: "MIN_VALIDITY").
func validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// micros is our own clock, in microseconds since the redlock began.
func (r *Redlock) micros() int64 { return time.Since(r.began).Microseconds() }

// ahead is how far a token is ahead of the nodes' clocks: what a request may take longer than the latest one did. A node
// takes no token of before its clock for a name that it does not know.
const ahead = time.Millisecond

// floor is the token that nodes should make up, the latest of their clocks; 0 if none is known.
func (r *Redlock) floor() int64 {
	var lead int64
	for i := range r.peers {
		if p := &r.peers[i]; !p.silent.Load() {
			lead = max(lead, p.lead.Load())
		}
	}
	if lead == 0 {
		return 0
	}
	return r.micros() + lead + ahead.Microseconds()
}

// label says which node an error is of.
func (r *Redlock) label(i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", r.peers[i].label, err)
}

// Ping succeeds when a majority answers, also that it casts no vote.
func (r *Redlock) Ping(ctx context.Context) error {
	if err := r.meetServers(ctx); err != nil {
		return err
	}
	p := r.ask(ctx, r.patience(r.MaxTTL), (*poll).all, r.hello())
	answers, errs := read(p, func(reply script.Reply) (none struct{}, err error) {
		if reply.Read().Status != script.Quarantined {
			_, err = reply.Record("")
		}
		return none, err
	})
	if len(answers) < r.quorum {
		return r.failed(ctx, errs, false)
	}
	return nil
}

// hello changes nothing. The server's run is known once it has answered.
func (r *Redlock) hello() script.Operation { return r.Naming.Keys("hello").Inspect() }

// Close ends what outlives a request.
func (r *Redlock) Close() {
	r.after.Close()
	var all providerkit.Group
	for _, d := range r.nodes {
		all.Go(func() error { d.Close(); return nil }, nil)
	}
	all.Wait()
}
