package console

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// readTimeout bounds one listing of the backend. requestTimeout bounds other requests, and also a page's
// wait for a listing unless the previous listing was slow.
const (
	readTimeout    = time.Minute
	requestTimeout = 5 * time.Second
)

// shared is the list of leases, which is read once for all its viewers.
type shared struct {
	read  func(context.Context) (listing, error)
	every time.Duration   // the minimum time between two reads
	end   context.Context // ends a read that is under way

	mu       sync.Mutex
	latest   *reading      // nil before the first reading
	underWay chan struct{} // closed at the end of the read under way; nil without one
}

// reading is an answer from the backend. It does not change.
type reading struct {
	listing
	at   time.Time     // just before the list was requested; zero before the first list
	took time.Duration // for the list
	err  error         // of the latest attempt; if it is set, the list is that of an earlier attempt
	next time.Time     // of the next attempt, at the earliest
}

func newShared(end context.Context, every time.Duration, read func(context.Context) (listing, error)) *shared {
	return &shared{read: read, every: every, end: end}
}

// get returns the latest reading, and first waits for a new reading if one is due. The wait is
// short: if it times out, get returns an error and any older reading.
func (s *shared) get(ctx context.Context) (*reading, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := requestTimeout
	if s.latest != nil {
		if time.Now().Before(s.latest.next) {
			return s.latest, nil
		}
		limit = max(limit, 2*s.latest.took)
	}
	if err := s.end.Err(); err != nil {
		return s.latest, err
	}
	if s.underWay == nil {
		s.underWay = make(chan struct{})
		go s.fetch()
	}
	underWay := s.underWay
	s.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case <-underWay:
	case <-timer.C:
		err = fmt.Errorf("no answer for %v", limit)
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	return s.latest, err
}

// fetch reads the list even if the first caller has left, since others may wait for the result.
func (s *shared) fetch() {
	ctx, cancel := context.WithTimeout(s.end, readTimeout)
	defer cancel()
	begun := time.Now()
	list, err := s.read(ctx)
	took := time.Since(begun)

	s.mu.Lock()
	defer s.mu.Unlock()
	latest := reading{listing: list, at: begun, took: took, next: time.Now().Add(max(s.every, 9*took))}
	if err != nil {
		latest = reading{err: err, next: time.Now().Add(s.every)}
		if s.latest != nil {
			latest.listing, latest.at, latest.took = s.latest.listing, s.latest.at, s.latest.took
		}
	}
	s.latest = &latest
	close(s.underWay)
	s.underWay = nil
}

// wait waits for the end of the read under way. Call it only after s.end has ended, when no further read
// can begin.
func (s *shared) wait() {
	s.mu.Lock()
	underWay := s.underWay
	s.mu.Unlock()
	if underWay != nil {
		<-underWay
	}
}
