package lifecycle_test

import (
	"cmp"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
)

// The world of the search has processes that claim one name, each with a real Lease, and a backend with the real rules of the
// record. The network between them delays, duplicates and loses requests. Each process may pause at any time, and its clock may
// be slower than the backend's, within the margin.

const (
	tick    = time.Second
	ttl     = 3 * tick
	lagging = int8(ttl/tick) - 1 // ticks after which a clock may stand still again
)

// plan has the options of the processes, and the bounds of the search.
type plan struct {
	name          string
	settings      lifecycle.Settings
	otherSettings *lifecycle.Settings // a holder may change to the TTL of these settings, and back; nil if no TTL changes
	equalClocks   bool                // all clocks agree, and the margin is zero
	processes     int                 // 2 unless set
	claims        int                 // claims of each process; 1 unless set
	requests      int                 // requests under way at a time; 3 unless set
	copies        int                 // requests that the network delivers twice
	lossy         bool                // requests can be lost; otherwise each request under way may still arrive and free the name
	breaks        int                 // breaks by an operator who has seen a token
	deaths        int                 // crashes; afterwards the restarted process or another one may adopt the lease
	handOver      bool
	fence         bool // holders write to a resource that compares tokens
	clock         bool // the backend has a clock, and tokens follow that clock
	setBack       bool // the backend's clock may be set back, once
	failover      bool // the backend may lose its latest write, once
	store         bool // the backend is cas.Records: a read, and then a conditional write
	late          bool // replies may come after their caller has left
	metadata      bool // holders change their metadata
	// retention is the time after which an idle name may be forgotten; 0 for never. No request is on its way for longer than
	// delay, unless delay is 0.
	retention, delay time.Duration
}

func (p plan) withDefaults() *plan {
	p.processes, p.claims, p.requests = cmp.Or(p.processes, 2), cmp.Or(p.claims, 1), cmp.Or(p.requests, 3)
	return &p
}

// request is a request on its way to the backend.
type request struct {
	kind   byte // 'a' for an acquire, 'n' for a renewal, 'r' for a release, 'c' for a release by a clean-up
	no     uint8
	from   int8 // the process
	copied bool
	id     string
	token  int64
	ttl    time.Duration
	sent   time.Duration
	read   *cas.Item // the item that the request has read from a store; nil before

	metadata map[string]string // of a renewal; nil for no change
}

// process is a holder that acts like the engine: it sends one request at a time.
type process struct {
	life     lifecycle.Lease
	id       string // "" before its first claim
	token    int64
	claims   int8
	changes  int8 // how often the process has changed its TTL or metadata
	lag      int8 // ticks since the process's clock last stood still
	awaited  byte // the kind of the request whose answer the process awaits; 0 for none
	no       uint8
	adopted  bool
	awaits   bool // the release waits for the renewal under way
	clock    time.Duration
	sent     trust.Instant
	begun    trust.Instant     // when the release began
	answer   *lifecycle.Answer // an answer that has arrived
	cleansUp bool              // a clean-up is under way
	tries    lifecycle.Tries
	tryAt    trust.Instant // when the next attempt of the clean-up is due

	carriesMetadata bool // the renewal under way carries metadata
	changesSent     int8 // number of changes when the latest renewal was sent
	renewing        bool // a renewal has begun, and its waiters have no result
	failed          bool // the latest renewal failed
	answeredLost    bool // the backend has answered that the lease is lost
	failing         int8 // the sum of Effects.Failing
	begins          int8 // published Acquired events
	ends            int8 // published events of a kind that ends the lease
	causes          int8 // ends of the lease's context
	violation       string
}

func (p *process) now() trust.Instant { return trust.Instant{Mono: p.clock, Boot: p.clock} }

// holds reports whether the phase is one in which the lease is in use.
func (p *process) holds() bool {
	return p.life.Phase() == lifecycle.Working || p.life.Phase() == lifecycle.Ending
}

// trustsLease reports whether the process works under the lease.
func (p *process) trustsLease() bool { return p.holds() && p.life.Remaining(p.now()) > 0 }

// idle reports whether the process neither has nor wants the lease.
func (p *process) idle() bool {
	return p.id == "" || p.awaited == 0 && (p.life.Phase() == lifecycle.Ended || p.life.Phase() == lifecycle.Abandoned)
}

// restarted returns the process without its claim. Its clock runs on.
func (p *process) restarted() process {
	return process{claims: p.claims, no: p.no, clock: p.clock, lag: p.lag}
}

// write is a write of a holder, on its way to the resource.
type write struct {
	token int64 // 0 for none
	grant int8
}

// handover is a claim that another process may adopt.
type handover struct {
	from  int8
	id    string
	token int64
}

// world is a state. Except for parties, the slices are never changed in place.
type world struct {
	plan     *plan
	rules    *lifecycle.Rules
	time     time.Duration
	backend  backend
	network  []request
	parties  []process
	handover *handover

	copies, breaks, deaths int8
	operator               int64 // the token of a break under way; 0 for none
	writes                 [3]write
	seen                   int64 // the highest token that the resource has seen
	written                int8  // the grant of the resource's latest write
	violation              string
}

// first returns the first state of the search.
func (p *plan) first() *world {
	drift := 1.0 / 3
	if p.equalClocks {
		drift = 0
	}
	w := &world{plan: p, written: -1, parties: make([]process, p.processes)}
	w.rules = &lifecycle.Rules{DriftFactor: drift, RequestTimeout: tick, Granularity: time.Millisecond, MinTTL: tick}
	for i := range w.parties {
		w.parties[i].clock, w.parties[i].lag = time.Duration(i+1)*100*tick, lagging
	}
	return w
}

// set makes w a copy of another state.
func (w *world) set(from *world) {
	parties := append(w.parties[:0], from.parties...)
	*w = *from
	w.parties = parties
	for i := range parties {
		parties[i].life = from.parties[i].life.Clone()
	}
}

// nextSettings returns the settings that a holder wants next.
func (w *world) nextSettings(p *process) *lifecycle.Settings {
	if p.changes == 0 {
		return w.plan.otherSettings
	}
	return &w.plan.settings
}

// claimID names a claim by a letter for the process and a letter that counts its claims.
func claimID(process int, claim int8) string {
	return string([]byte{'a' + byte(process), 'A' + byte(claim) - 1})
}
