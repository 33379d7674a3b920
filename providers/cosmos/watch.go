package cosmoslease

import (
	"sync"
	"time"
)

const (
	// maxWatched bounds how many names are watched at a time. One that is left
	// out is freed by the service's time alone, a few seconds later.
	maxWatched = 1024
	// A lease has been watched for long enough after its TTL, a hundredth of it
	// for clocks that run at different rates, and a tenth of a second.
	watchRate  = 100
	watchFloor = 100 * time.Millisecond
)

// watch remembers since when reads have shown the same version of a document, on
// this process's monotonic clock. A version that was there a TTL ago, and still is
// when it is replaced under its ETag, is of a lease that has run out: its holder
// wrote it before it was seen, and has not renewed since. No clock but one, and no
// resolution of a second, has a part in it.
//
// It is the replacement that shows that the version is still there, so a read that
// was stale does no harm. The monotonic clock stands still while the machine is
// suspended: then the watch lasts longer than it had to.
type watch struct {
	mu   sync.Mutex
	seen map[string]sighting
}

type sighting struct {
	etag  string
	since time.Time
}

// observe notes what a read, whose reply has just arrived, shows of a holder. It
// returns how long the lease has to be watched yet, 0 if it is over. It is never
// over for an infinite one.
func (w *watch) observe(s snapshot) (left time.Duration, over bool) {
	now, h := time.Now(), s.doc.Holder
	since := w.since(s, now)
	if h.infinite() {
		return 0, false
	}
	ttl := h.ttl()
	left = ttl + ttl/watchRate + watchFloor - now.Sub(since)
	return max(0, left), left <= 0
}

// since is when the version was first seen.
func (w *watch) since(s snapshot, now time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := s.doc.Name
	if before, ok := w.seen[name]; ok && before.etag == s.etag {
		return before.since
	}
	if w.seen == nil {
		w.seen = map[string]sighting{}
	}
	if _, ok := w.seen[name]; !ok && len(w.seen) >= maxWatched {
		for other := range w.seen { // any
			delete(w.seen, other)
			break
		}
	}
	w.seen[name] = sighting{etag: s.etag, since: now}
	return now
}

// forget ends the watch over a name.
func (w *watch) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, name)
}
