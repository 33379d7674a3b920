package console

import (
	"context"
	"slices"
	"sync"
)

// maxStreams bounds the pages that are kept up to date at a time. Further pages are shown once, and
// retry.
const maxStreams = 200

// streams are the pages that are kept up to date. Users share them: when there are maxStreams, a new stream of a
// user with fewer streams than another replaces the oldest stream of the user with the most.
type streams struct {
	mu  sync.Mutex
	of  map[string][]*running // by user, the oldest first
	all int
}

// running is one page that is kept up to date.
type running struct{ end context.CancelFunc }

// begin adds a stream of a user; end ends the stream. ok is false if the user can have no further stream.
func (s *streams) begin(user string, end context.CancelFunc) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams && !s.makeRoom(len(s.of[user])+1) {
		return nil, false
	}
	one := &running{end: end}
	if s.of == nil {
		s.of = map[string][]*running{}
	}
	s.of[user] = append(s.of[user], one)
	s.all++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(user, one)
	}, true
}

// makeRoom ends the oldest stream of the user with the most streams, if that user has more than number. Caller
// holds mu.
func (s *streams) makeRoom(number int) bool {
	greediest := ""
	for user, theirs := range s.of {
		if len(theirs) > number {
			greediest, number = user, len(theirs)
		}
	}
	theirs := s.of[greediest]
	if len(theirs) != number {
		return false
	}
	theirs[0].end()
	s.remove(greediest, theirs[0])
	return true
}

// remove removes a stream unless it is already removed. Caller holds mu.
func (s *streams) remove(user string, one *running) {
	theirs := s.of[user]
	i := slices.Index(theirs, one)
	if i < 0 {
		return
	}
	s.all--
	if s.of[user] = slices.Delete(theirs, i, i+1); len(s.of[user]) == 0 {
		delete(s.of, user)
	}
}
