package engine

import "github.com/distributedleasing/leasing/internal/lifecycle"

func (m *Manager) isClosing() bool { return m.accepting.Err() != nil }

// closing returns the facts about Close that a clean-up needs.
func (m *Manager) closing() lifecycle.Closing {
	if !m.isClosing() {
		return lifecycle.Closing{}
	}
	return lifecycle.Closing{Begun: true, GiveUpAt: m.giveUpAt}
}

// track makes Close wait until goroutines.Done is called. It returns false, and does nothing, if the manager
// has ended.
func (m *Manager) track() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running.Err() != nil {
		return false
	}
	m.goroutines.Add(1)
	return true
}

// spawn runs f in a goroutine that Close waits for, unless the manager has ended.
func (m *Manager) spawn(f func()) bool {
	if !m.track() {
		return false
	}
	go func() {
		defer m.goroutines.Done()
		f()
	}()
	return true
}

// goTracked runs f in a goroutine. Close waits for the goroutine unless the manager has ended.
func (m *Manager) goTracked(f func()) {
	if !m.spawn(f) {
		go f()
	}
}

// endCall ends a call that m.calls counts.
func (m *Manager) endCall() {
	m.calls.Add(-1)
	if m.isClosing() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.checkIdle()
	}
}
