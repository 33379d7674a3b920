package run

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
)

// usage describes how a worker uses one lease.
type usage struct {
	do, try    bool
	noRenewal  bool // the lease is not renewed
	manual     bool // the worker also renews by hand
	crash      bool
	most       int                // the maximum number of renewals; 0: no limit
	leaves     bool               // the caller of Do cancels its context during the work
	leave      context.CancelFunc // cancels that context
	lingers    time.Duration      // the time from the end of Do's context to the end of Do's function
	cutRelease bool               // the context of the release ends before the call
	twice      bool               // two releases run concurrently
	hold       time.Duration
	ttl        time.Duration
	metadata   metadata
}

// metadata is the holder's latest metadata, as a text; "" if it is not known.
type metadata string

const noMetadata metadata = "none"

func (m metadata) values() map[string]string {
	if m == "" || m == noMetadata {
		return nil
	}
	return map[string]string{"is": string(m)}
}

// read returns the text that metadata.values has stored.
func read(values map[string]string) string { return cmp.Or(values["is"], string(noMetadata)) }

func (w *worker) usage() usage {
	kind, length := w.random.Float64(), w.random.Float64()
	s := usage{
		do: kind < 0.3, try: kind > 0.7,
		noRenewal: w.random.Float64() < w.rarely(0.04),
		manual:    w.random.Float64() < 0.3,
		crash:     w.random.Float64() < w.rarely(0.02) && !w.options.Repeatable,
		ttl:       w.ttl(),
		metadata:  noMetadata,
	}
	s.do = s.do && !s.crash // Do would release the lease
	w.usedInfinite = w.usedInfinite || s.ttl == leasing.Infinite
	s.crash = s.crash && !w.usedInfinite // as in compete
	s.noRenewal = s.noRenewal && s.ttl != leasing.Infinite
	if w.random.Float64() < 0.3 {
		s.metadata = metadata(fmt.Sprint(w.random.IntN(1e6)))
	}
	releases := w.random.Float64()
	s.cutRelease, s.twice = releases < 0.1, releases > 0.9 && !w.options.Repeatable
	if s.ttl != leasing.Infinite && w.random.Float64() < w.rarely(0.1) {
		s.most = 1 + w.random.IntN(2)
	}
	if s.noRenewal || s.most > 0 { // only the manager renews
		s.manual, s.metadata = false, ""
	}
	if s.do {
		if s.leaves = w.random.Float64() < 0.2; !s.leaves && w.random.Float64() < w.rarely(0.2) {
			s.lingers = w.between(0.2, 1.2)
		}
	}
	switch long := w.rarely(0.18); { // mostly shorter than the TTL, sometimes long enough for renewals
	case s.noRenewal:
		s.hold = w.between(0.8, 1.8)
	case length < 1-long:
		s.hold = w.shortTime(4*time.Millisecond, 200*time.Millisecond)
	case length < 1-long*0.28:
		s.hold = w.between(0.2, 0.9)
	default:
		s.hold = w.between(1, 2.4)
	}
	return s
}

// ttl returns the run's TTL in most cases, and sometimes a shorter or infinite TTL.
func (w *worker) ttl() time.Duration {
	switch kind := w.random.Float64(); {
	case kind < 0.1:
		return max(w.options.TTL/2, w.options.least)
	case kind < 0.2:
		return max(w.options.TTL*3/4, w.options.least)
	case kind < 0.22 && w.options.infinite && w.index%4 == 3:
		return leasing.Infinite
	}
	return w.options.TTL
}

// waitLimit returns the wait limit for a name. In a repeatable run there is no limit: if a
// slow answer arrives after both the limit and a wake-up, a manager's select chooses one of
// the two at random.
//
// A repeatable run also has no crashes, because the requests that a manager's
// goroutines begin before a sudden Close vary.
func (w *worker) waitLimit() time.Duration {
	if w.options.Repeatable {
		return 0
	}
	return w.between(0.1, 2)
}
