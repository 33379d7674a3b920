package torture

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// claims gives the claims of one worker IDs that are the same in each repetition
// of a run: managers choose random ones, and faults may depend on them. They stay
// UUIDs (version 8 of RFC 9562), which every backend takes, and tell whose they
// are. It is safe for concurrent use.
type claims struct {
	run    uint64 // 48 bits of it tell the IDs of runs apart
	worker int

	mu    sync.Mutex
	ours  map[string]string // by the manager's
	their map[string]string // and back
}

func newClaims(run uint64, worker int) *claims {
	return &claims{run: run & (1<<48 - 1), worker: worker, ours: map[string]string{}, their: map[string]string{}}
}

// out is the ID that the backend gets for a manager's.
func (c *claims) out(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.ours[id]; ok {
		return known
	}
	n := len(c.ours) + 1
	ours := fmt.Sprintf("%08x-%04x-8000-8000-%012x", n, c.worker, c.run)
	c.ours[id], c.their[ours] = ours, id
	return ours
}

// in is the manager's ID for one that the backend has told.
func (c *claims) in(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.their[id]; ok {
		return known
	}
	return id
}

// label is an ID of this run as people read it: worker and number, "3.17". Other
// IDs are left as they are.
func (c *claims) label(id string) string {
	tail := fmt.Sprintf("-8000-8000-%012x", c.run)
	head, ok := strings.CutSuffix(id, tail)
	if !ok {
		return id
	}
	number, worker, _ := strings.Cut(head, "-")
	n, err1 := strconv.ParseUint(number, 16, 32)
	w, err2 := strconv.ParseUint(worker, 16, 16)
	if err1 != nil || err2 != nil {
		return id
	}
	return fmt.Sprintf("%d.%d", w, n)
}
