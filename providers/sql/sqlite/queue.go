package sqlitelease

import (
	"context"
	"fmt"
	"slices"

	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// pipes wakes the processes that wait for names of a database, each through its pipe beside the file.
type pipes struct{ db *sqliteDatabase }

// Lives reports whether the process behind a channel may be alive. For a process that polls this is unknown.
func (p pipes) Lives(channel string) bool {
	return channel == dialect.Polled || writePipe(p.pipe(channel), "")
}

// wake wakes the first waiter of a queue, and sends a few of the others the time at which their turn comes
// if all waiters before them hang: one reservation later for each earlier waiter. More than a few would
// make a release expensive.
func (p pipes) wake(q dialect.WaitList) {
	last := q.Len() - 1
	for rank := 0; q != ""; rank, q = rank+1, q.Rest() {
		if rank != last && !slices.Contains([]int{0, 1, 2, 3, 5, 9, 17, 33}, rank) {
			continue
		}
		if waiter, channel := q.Head(); channel != dialect.Polled {
			writePipe(p.pipe(channel), fmt.Sprintf("%s %d\n", waiter, waitqueue.Grace.Milliseconds()*int64(rank)))
		}
	}
}

// listen makes this process's pipe. If that is impossible, the process polls.
func (p pipes) listen(ctx context.Context, w *dialect.Wakeups) (wakeup.Connection, error) {
	if err := p.db.verifyFile(ctx); err != nil {
		return nil, err
	}
	if p.db.opened.Load() == nil {
		return nil, dialect.ErrPolls
	}
	pipe, err := makePipe(p.db.opened.Load().path, w.Channel, w.Message)
	if err != nil {
		return nil, dialect.ErrPolls
	}
	return pipe, nil
}

// pipe returns the path of the pipe behind a channel.
func (p pipes) pipe(channel string) string {
	if file := p.db.opened.Load(); file != nil {
		return pipePath(file.path, channel)
	}
	return ""
}

func pipePath(database, channel string) string { return database + "-wake-" + channel }
