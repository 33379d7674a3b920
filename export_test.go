package leasing

import (
	"sync"
	"time"

	"github.com/distributedleasing/leasing/internal/instrument"
	"github.com/distributedleasing/leasing/internal/trust"
)

// Machine is the clock seam for tests: a machine that can be suspended. Its
// boot clock runs along with Go's (virtual) clock, and on while suspended.
type Machine struct {
	mu        sync.Mutex
	start     time.Time
	suspended time.Duration // in all
	alarm     time.Duration // by the boot clock
	signal    chan struct{}
	timer     *time.Timer // to the alarm, while awake
	beforeSet func()
}

// BeforeAlarm has f called before the alarm is set the next time.
func (m *Machine) BeforeAlarm(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beforeSet = f
}

func NewMachine() *Machine {
	return &Machine{start: time.Now(), alarm: trust.Forever, signal: make(chan struct{}, 1)}
}

func (m *Machine) boot() time.Duration { return time.Since(m.start) + m.suspended }

func (m *Machine) Boot() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boot()
}

// Suspend advances the boot clock alone by d, like a closed lid.
func (m *Machine) Suspend(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.suspended += d
	m.arm()
}

func (m *Machine) Set(in time.Duration) {
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

// arm fires the alarm when the boot clock reaches its time. Caller holds mu.
func (m *Machine) arm() {
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

func (m *Machine) Fired() <-chan struct{} { return m.signal }

func (m *Machine) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
	}
}

// NewManagerOn makes a manager that runs on a Machine.
func NewManagerOn(machine *Machine, provider Provider, options Options) (*Manager, error) {
	return newManager(provider, options, func() *trust.Clock { return trust.NewClock(machine.Boot, machine) })
}

// Window returns the time for which a lease of ttl is trusted under the default options.
func Window(ttl time.Duration) time.Duration {
	return (&Options{Tuning: Tuning{DriftFactor: 0.01, DriftFloor: 2 * time.Millisecond}}).window(ttl)
}

var FirstPart = instrument.FirstPart

const MaxScopes = instrument.MaxScopes

// signal wakes the present or the next receiver of c. It never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
