package redlock

import "sync"

// claims are those that this process asks for at the moment. Two attempts for one claim
// at a time don't know of each other: what the one would take back, since no majority of
// it is left, the other may be counting. (Those of other processes are told apart by their
// numbers: see tryStep.)
type claims struct {
	mu   sync.Mutex
	byID map[string]*rivals
}

// rivals are attempts for one claim, each of which was under way together with another.
type rivals struct {
	attempts int // under way
	several  bool
}

// enter notes an attempt, before it asks anybody.
func (c *claims) enter(id string) *rivals {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[string]*rivals{}
	}
	r := c.byID[id]
	if r == nil {
		r = &rivals{}
		c.byID[id] = r
	}
	r.attempts++
	r.several = r.several || r.attempts > 1
	return r
}

// leave notes the end of an attempt: it does not win any more.
func (c *claims) leave(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.byID[id]
	if r.attempts--; r.attempts == 0 {
		delete(c.byID, id)
	}
}

// alone says that an attempt has had the claim to itself since it began.
func (c *claims) alone(r *rivals) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !r.several
}
