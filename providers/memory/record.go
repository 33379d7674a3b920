package memlease

import (
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// shard is the set of names that share a lock.
type shard struct {
	sync.Mutex
	records map[string]*record
	waiters map[string][]*waiter // by name, in the order of wake-ups
	// order holds the same records in the order of the sweep.
	order     []*record
	nextSwept int
	// floor is the highest token of the forgotten names, so that tokens rise
	// even if the clock has gone back since.
	floor int64

	_ [64]byte // keeps the locks of neighbours in separate cache lines
}

// record is the state of one name. It is guarded by its shard's lock.
type record struct {
	providerkit.Record
	expires  time.Duration // when the name becomes or became free, counted from the start
	history  *history
	position int32 // in shard.order
}

// never is the expiry of an infinite lease.
const never = abstractions.Infinite

// ends returns the end of a TTL that begins now.
func ends(now, ttl time.Duration) time.Duration {
	if ttl == abstractions.Infinite {
		return never
	}
	return min(now, never-1-ttl) + ttl
}

// now returns the time since the provider's start. Caller holds the lock of a shard, so that the
// instants of a name's changes never go back.
func (m *memory) now() time.Duration { return m.options.Now().Sub(m.start) }

// find returns the record of a name at the time now, or a new record.
func (m *memory) find(s *shard, name string, now time.Duration) (r *record, known bool) {
	if r, known = s.records[name]; !known {
		r = &record{Record: providerkit.Record{Name: name}, expires: now}
	}
	m.settle(s, r, now)
	return r, known
}

// settle fills in the parts of a record that depend on the clock.
func (m *memory) settle(s *shard, r *record, now time.Duration) {
	r.Now, r.Floor, r.Left = m.base.Add(now), s.floor, r.expires
	if r.expires != never {
		r.Left -= now
	}
}

// change applies a rule to the record of a name. If sweep is set, it also checks a few
// other records. Only the verbs that can use more memory sweep.
func (m *memory) change(name string, sweep bool, rule func(*providerkit.Record) providerkit.Change) error {
	s := m.shardOf(name)
	s.Lock()
	defer s.Unlock()
	now := m.now()
	if sweep {
		m.sweep(s, now)
	}
	r, known := m.find(s, name, now)
	c := rule(&r.Record)
	if !c.Write {
		return c.Err
	}
	if !known {
		r.position = int32(len(s.order))
		s.records[name], s.order = r, append(s.order, r)
	}
	if c.Deadline {
		r.expires = ends(now, r.Left)
	}
	if m.options.History > 0 {
		m.note(r, &c.Expired)
		m.note(r, &c.Note)
	}
	if c.Wake {
		m.wakeups.Wake(name)
	}
	return c.Err
}

// show returns the record of a name, and false if the name is not known.
func (m *memory) show(s *shard, name string) (shown abstractions.Record, ok bool) {
	s.Lock()
	defer s.Unlock()
	r, ok := m.find(s, name, m.now())
	return r.Show(), ok
}

// sweepBatch is the number of records that an acquire or release checks. With two, a shard
// of n records is swept completely in n/2 requests, so one-off names can't pile up
// faster than they are forgotten.
const sweepBatch = 2

// sweep checks the next few records and forgets those that are due. Caller holds
// the shard's lock.
func (m *memory) sweep(s *shard, now time.Duration) {
	for range min(sweepBatch, len(s.order)) {
		if s.nextSwept >= len(s.order) {
			s.nextSwept = 0
		}
		r := s.order[s.nextSwept]
		if now-r.expires >= m.options.Retention { // a cheap check, which most records fail
			m.settle(s, r, now)
			if r.Forgettable(m.options.Retention) {
				s.forget(r) // which moves another record into its place
				continue
			}
		}
		s.nextSwept++
	}
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
