package cosmoslease

import (
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// tokens are the fencing tokens that a provider gives. A document that remembers the
// latest one gets the next, whatever any clock shows. Where the document, or its
// container, was deleted only the service's time is left, and that has whole seconds:
// within one a token has to be told from the one before by something else.
type tokens struct {
	mu     sync.Mutex
	latest int64 // given by this process, for any name; those of the future left out
}

// next is the token of a new holder, by the latest one stored and the service's Date.
// It is greater than what this process has given within that second, so one process
// orders its own tokens whatever its clock shows.
func (t *tokens) next(stored int64, date, local time.Time) int64 {
	// A token beyond it is somebody's who had a wrong clock: it orders nothing.
	future := date.Add(2 * resolution).UnixMicro()
	at := instant(date, local)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.latest >= at.UnixMicro() && t.latest < future {
		at = time.UnixMicro(t.latest + 1)
	}
	token := abstractions.NextToken(stored, at)
	if token < future {
		t.latest = max(t.latest, token)
	}
	return token
}

// instant is the service's time as far as tokens are concerned: its second, and of
// the second the part by which our clock is ahead. That orders what processes give
// whose clocks agree with each other and the service's to less than a second; where
// they don't it is as good as none, and never leaves the second.
func instant(date, local time.Time) time.Time {
	return date.Add(min(max(0, local.Sub(date)), resolution-time.Microsecond))
}
