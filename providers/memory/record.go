package memlease

import (
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// shard is the part of the names that share a lock.
type shard struct {
	sync.Mutex
	records map[string]*record
	// order holds the same records for the sweep's hand to walk over.
	order []*record
	hand  int
	// floor is the highest token among the forgotten, so that tokens rise
	// even if the clock has gone back since.
	floor int64

	_ [64]byte // keeps the locks of neighbours off one cache line
}

// record is what is known of one name. It is guarded by its shard's lock.
type record struct {
	providerkit.Record
	expires  instant // when the name is free, or since when it has been
	history  *history
	position int32 // in shard.order
}

// find returns the record of a name as of now: a new one if there is none.
func (m *memory) find(s *shard, name string, now instant) (r *record, known bool) {
	if r, known = s.records[name]; !known {
		r = &record{Record: providerkit.Record{Name: name}, expires: now}
	}
	m.settle(s, r, now)
	return r, known
}

// settle completes a record with what depends on the clock.
func (m *memory) settle(s *shard, r *record, now instant) {
	r.Now, r.Floor = m.base.Add(time.Duration(now)), s.floor
	r.Left = time.Duration(r.expires)
	if r.expires != never {
		r.Left = time.Duration(r.expires - now)
	}
}

// change applies a rule to the record of a name. With sweep it looks at a few others
// too: it is for the verbs by which memory grows.
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
		s.add(r)
	}
	if c.Deadline {
		r.expires = now.plus(r.Left)
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
