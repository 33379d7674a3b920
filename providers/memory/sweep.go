package memlease

import "time"

// swept is how many records an acquire or release looks at. At two, a shard of
// n records has been walked over after n/2 of them, so one-off names can't pile
// up faster than they are forgotten.
const swept = 2

// sweep looks at the next few records and forgets those that are due.
func (s *shard) sweep(now moment, retention time.Duration) {
	for range min(swept, len(s.order)) {
		if s.hand >= len(s.order) {
			s.hand = 0
		}
		if s.order[s.hand].due(now, retention) {
			s.forget(s.order[s.hand]) // which puts another one under the hand
		} else {
			s.hand++
		}
	}
}

// due reports whether a record may be forgotten: its name is free and has been
// for long, and a holder to come gets a higher token by the clock alone.
func (r *record) due(now moment, retention time.Duration) bool {
	idle := time.Duration(now.at - max(r.expires, r.touched))
	return idle >= retention && r.token < now.wall.UnixMicro()
}

func (s *shard) forget(r *record) {
	s.floor = max(s.floor, r.token)
	delete(s.records, r.name)
	last := len(s.order) - 1
	s.order[r.position] = s.order[last]
	s.order[r.position].position = r.position
	s.order[last] = nil
	s.order = s.order[:last]
}
