package memlease

// swept is how many records an acquire or release looks at. At two, a shard of
// n records has been walked over after n/2 of them, so one-off names can't pile
// up faster than they are forgotten.
const swept = 2

// sweep looks at the next few records and forgets those that are due. Caller holds
// the shard's lock.
func (m *memory) sweep(s *shard, now instant) {
	for range min(swept, len(s.order)) {
		if s.hand >= len(s.order) {
			s.hand = 0
		}
		r := s.order[s.hand]
		if now-r.expires >= instant(m.options.Retention) { // most are younger, which is cheap to see
			m.settle(s, r, now)
			if r.Forgettable(m.options.Retention) {
				s.forget(r) // which puts another one under the hand
				continue
			}
		}
		s.hand++
	}
}

func (s *shard) add(r *record) {
	r.position = int32(len(s.order))
	s.records[r.Name] = r
	s.order = append(s.order, r)
}

func (s *shard) forget(r *record) {
	s.floor = max(s.floor, r.Token)
	delete(s.records, r.Name)
	last := len(s.order) - 1
	s.order[r.position] = s.order[last]
	s.order[r.position].position = r.position
	s.order[last] = nil
	s.order = s.order[:last]
}
