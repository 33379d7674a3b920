package console

import (
	"context"
	"slices"
	"sync"
)

// maxStreams bounds the pages that are kept up to date at a time. Further pages are shown without
// updates, and retry.
const maxStreams = 200

// streams are the pages that are kept up to date. Users share them: when there are maxStreams, a new stream replaces the oldest
// stream of the user with the most streams, if the new stream's user has fewer even with the new stream.
type streams struct {
	mu     sync.Mutex
	byUser map[string][]*stream // by user, the oldest first
	total  int
}

// stream is one page that is kept up to date.
type stream struct{ end context.CancelFunc }

// add adds a stream of a user; end ends the stream. ok is false if the user can't have another stream.
func (s *streams) add(user string, end context.CancelFunc) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= maxStreams && !s.makeRoom(len(s.byUser[user])+1) {
		return nil, false
	}
	added := &stream{end: end}
	if s.byUser == nil {
		s.byUser = map[string][]*stream{}
	}
	s.byUser[user] = append(s.byUser[user], added)
	s.total++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(user, added)
	}, true
}

// makeRoom ends the oldest stream of the user with the most streams, if that user has more than number streams. Caller
// holds mu.
func (s *streams) makeRoom(number int) bool {
	heaviest := ""
	for user, list := range s.byUser {
		if len(list) > number {
			heaviest, number = user, len(list)
		}
	}
	list := s.byUser[heaviest]
	if len(list) != number {
		return false
	}
	list[0].end()
	s.remove(heaviest, list[0])
	return true
}

// remove removes a stream unless it is already removed. Caller holds mu.
func (s *streams) remove(user string, removed *stream) {
	list := s.byUser[user]
	i := slices.Index(list, removed)
	if i < 0 {
		return
	}
	s.total--
	if s.byUser[user] = slices.Delete(list, i, i+1); len(s.byUser[user]) == 0 {
		delete(s.byUser, user)
	}
}
