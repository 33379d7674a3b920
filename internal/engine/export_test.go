package engine

// MaxRecent is maxRecent.
const MaxRecent = maxRecent

// Remembered returns the number of names that the manager's queues remember.
func (m *Manager) Remembered() int {
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	return len(m.queues.byName)
}
