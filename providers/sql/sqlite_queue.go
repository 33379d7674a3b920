package sqllease

import (
	"context"
	"fmt"
	"slices"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
)

// lives says whether the process behind a channel may be alive. Of one that polls that is not known.
func (s *sqlite) lives(channel string) bool {
	return channel == polled || writePipe(s.pipe(channel), "")
}

// tell wakes the first of a queue, and prepares others for when all before them hang: a reservation
// each. A release stays cheap, so it tells a few.
func (s *sqlite) tell(q lineUp) {
	last := q.len() - 1
	for rank := 0; q != ""; rank, q = rank+1, q.rest() {
		if rank != last && !slices.Contains([]int{0, 1, 2, 3, 5, 9, 17, 33}, rank) {
			continue
		}
		if waiter, channel := q.head(); channel != polled {
			writePipe(s.pipe(channel), fmt.Sprintf("%s %d\n", waiter, waitqueue.Grace.Milliseconds()*int64(rank)))
		}
	}
}

// listen makes this process' pipe. Where that can't be, it polls.
func (s *sqlite) listen(ctx context.Context, w *wakeups) (providerkit.Connection, error) {
	if err := s.db.verifyFile(ctx); err != nil {
		return nil, err
	}
	if s.db.opened.Load() == nil {
		return nil, errPolls
	}
	pipe, err := makePipe(s.db.opened.Load().path, w.Channel, w.message)
	if err != nil {
		return nil, errPolls
	}
	return pipe, nil
}

// pipe is where the process behind a channel is woken.
func (s *sqlite) pipe(channel string) string {
	if file := s.db.opened.Load(); file != nil {
		return pipePath(file.path, channel)
	}
	return ""
}

func pipePath(database, channel string) string { return database + "-wake-" + channel }
