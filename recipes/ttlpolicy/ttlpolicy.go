package ttlpolicy

import (
	"cmp"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// UnderLoad returns a policy that gives a lease at most ttl while load returns more than
// threshold, and leaves the TTL as it is otherwise. load is the application's own
// measure: the length of a queue, the machine's load, the rate of requests. load is called for each
// acquire, on the caller's goroutine, so it must be safe for concurrent use.
func UnderLoad(load func() float64, threshold float64, ttl time.Duration) func(leasing.TTLRequest) time.Duration {
	return func(r leasing.TTLRequest) time.Duration {
		if load() > threshold {
			return min(r.TTL, ttl)
		}
		return r.TTL
	}
}

// PastOptions configure a Past.
type PastOptions struct {
	// Scope maps a name to its kind. Default: each name is its own kind. A Past
	// remembers 1000 kinds; leases of further kinds keep their TTL.
	Scope func(name string) string
	// Factor is the ratio of the TTL to the mean time held. Default 2.
	Factor float64
	// Floor and Cap bound that TTL. Defaults: 1 s, and no upper bound.
	Floor, Cap time.Duration
	// Samples is the number of a kind's latest leases that count. Default 32.
	Samples int
}

// maxScopes is the maximum number of kinds that are remembered; a lease of any other kind keeps its TTL.
const maxScopes = 1000

// Past chooses TTLs according to how long leases were held in this process. Its method TTL is the policy, and its method Observe
// must get the manager's events.
//
//	past := ttlpolicy.NewPast(ttlpolicy.PastOptions{})
//	manager, err := leasing.NewManager(provider, leasing.Options{TTLPolicy: past.TTL})
//	...
//	defer manager.Subscribe(past.Observe)()
//
// It is safe for concurrent use, also by several managers.
type Past struct {
	options PastOptions

	mu         sync.Mutex
	acquiredAt map[leasing.Fingerprint]time.Time // when the held claims were acquired
	scopes     map[string][]time.Duration        // how long earlier claims were held
}

// NewPast makes an empty Past.
func NewPast(options PastOptions) *Past {
	options.Factor = cmp.Or(options.Factor, 2)
	options.Floor = cmp.Or(options.Floor, time.Second)
	options.Cap = cmp.Or(options.Cap, leasing.Infinite)
	options.Samples = max(cmp.Or(options.Samples, 32), 1)
	if options.Scope == nil {
		options.Scope = func(name string) string { return name }
	}
	return &Past{options: options, acquiredAt: map[leasing.Fingerprint]time.Time{}, scopes: map[string][]time.Duration{}}
}

// Observe learns from the events of leases that are released. It ignores leases that
// are lost or handed over, since the time for which they were needed is unknown.
func (p *Past) Observe(e leasing.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case leasing.EventAcquired:
		p.acquiredAt[e.Fingerprint] = e.Time
	case leasing.EventLost, leasing.EventHandedOver:
		delete(p.acquiredAt, e.Fingerprint)
	case leasing.EventDropped: // the dropped events may include ends of leases
		clear(p.acquiredAt)
	case leasing.EventReleased:
		acquired, known := p.acquiredAt[e.Fingerprint]
		delete(p.acquiredAt, e.Fingerprint)
		scope := p.options.Scope(e.Name)
		samples, old := p.scopes[scope]
		if !known || !old && len(p.scopes) >= maxScopes {
			return
		}
		samples = append(samples, e.Time.Sub(acquired))
		p.scopes[scope] = samples[max(0, len(samples)-p.options.Samples):]
	}
}

// TTL is the policy: Factor times the mean time for which leases of the name's kind
// were held. Without such leases it leaves the TTL unchanged.
func (p *Past) TTL(r leasing.TTLRequest) time.Duration {
	scope := p.options.Scope(r.Name)
	p.mu.Lock()
	defer p.mu.Unlock()
	samples := p.scopes[scope]
	if len(samples) == 0 {
		return r.TTL
	}
	var sum float64
	for _, s := range samples {
		sum += float64(s)
	}
	mean := p.options.Factor * sum / float64(len(samples))
	return time.Duration(min(max(mean, float64(p.options.Floor)), float64(min(p.options.Cap, maxTTL))))
}

// maxTTL is about 146 years: a power of two, which a float64 represents exactly.
const maxTTL time.Duration = 1 << 62
