package leasing

import (
	"sync"
	"time"
)

// Machine is the clock seam for tests: a machine that can be suspended. Its
// boot clock runs along with Go's (virtual) clock, and on while suspended.
type Machine struct {
	mu     sync.Mutex
	start  time.Time
	asleep time.Duration // in all
	alarm  time.Duration // by the boot clock
	signal chan struct{}
	closed bool
}

func NewMachine() *Machine {
	return &Machine{start: time.Now(), alarm: forever, signal: make(chan struct{}, 1)}
}

func (m *Machine) boot() time.Duration { return time.Since(m.start) + m.asleep }

func (m *Machine) Boot() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boot()
}

// Suspend lets d pass on the boot clock alone, as a closed lid does.
func (m *Machine) Suspend(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asleep += d
	if m.alarm <= m.boot() {
		poke(m.signal)
	}
}

func (m *Machine) set(in time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alarm = addSaturated(m.boot(), in)
}

func (m *Machine) fired() <-chan struct{} { return m.signal }
func (m *Machine) close()                 { m.closed = true }

// NewManagerOn makes a manager that runs on a Machine.
func NewManagerOn(machine *Machine, provider Provider, options Options) (Manager, error) {
	m, err := newManager(provider, options, func() *clock { return newClock(machine.Boot, machine) })
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Window is how long a lease of ttl is trusted under the default options.
func Window(ttl time.Duration) time.Duration { return drift{0.01, 2 * time.Millisecond}.window(ttl) }

var (
	AttemptBound = attemptBound
	RetryPause   = retryPause
	Jittered     = jittered
	ScopeOf      = scopeOf
)

const (
	Forever       = forever
	HandOverLimit = handOverLimit
	MaxScopes     = maxScopes
)
