package managertest_test

import (
	"sync"
	"time"

	"github.com/distributedleasing/leasing"

	"github.com/distributedleasing/leasing/internal/trust"
)

// machine is a machine that can be suspended. Its boot clock runs along with Go's
// (virtual) clock, and continues while the machine is suspended.
type machine struct {
	mu        sync.Mutex
	start     time.Time
	suspended time.Duration // in total
	alarm     time.Duration // by the boot clock
	signal    chan struct{}
	timer     *time.Timer // fires the alarm while the machine is awake
	beforeSet func()
}

// BeforeAlarm makes the next call of Set call f before it sets the alarm.
func (m *machine) BeforeAlarm(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beforeSet = f
}

func newMachine() *machine {
	return &machine{start: time.Now(), alarm: trust.Forever, signal: make(chan struct{}, 1)}
}

func (m *machine) boot() time.Duration { return time.Since(m.start) + m.suspended }

func (m *machine) Boot() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boot()
}

// Suspend advances only the boot clock, by d, like a laptop with a closed lid.
func (m *machine) Suspend(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.suspended += d
	m.arm()
}

func (m *machine) Set(in time.Duration) {
	m.mu.Lock()
	before := m.beforeSet
	m.beforeSet = nil
	m.mu.Unlock()
	if before != nil {
		before()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alarm = trust.AddSaturated(m.boot(), in)
	m.arm()
}

// arm fires the alarm when the boot clock reaches the alarm's time. Caller holds mu.
func (m *machine) arm() {
	if m.timer != nil {
		m.timer.Stop()
	}
	switch left := m.alarm - m.boot(); {
	case m.alarm == trust.Forever:
	case left <= 0:
		signal(m.signal)
	default:
		m.timer = time.AfterFunc(left, func() { signal(m.signal) })
	}
}

func (m *machine) Fired() <-chan struct{} { return m.signal }

func (m *machine) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
	}
}

// newManagerOn makes a manager that runs on a machine.
func newManagerOn(m *machine, provider leasing.Provider, options leasing.Options) (*leasing.Manager, error) {
	defer trust.Replace(func() *trust.Clock { return trust.NewClock(m.Boot, m) })()
	return leasing.NewManager(provider, options)
}

// window returns the time for which a lease of ttl is trusted under the default options.
func window(ttl time.Duration) time.Duration { return trust.Window(ttl, 0.01, 2*time.Millisecond) }

// signal wakes the current or the next receiver of c. It never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
