package redislease

import (
	"context"
	"errors"
	"net"
	"time"
)

const (
	// directTime is how long a direct call may take: it does not hear of its
	// context's end. After that its operation is sent again, by a worker.
	directTime = 100 * time.Millisecond
	// prompt is how fast a server answers to which calls are made directly.
	prompt = 10 * time.Millisecond
)

// callDirectly makes a call on the caller's own goroutine, if there is nothing to
// combine it with and the server is known to answer at once. That saves two
// changes of goroutine, which take about as long as a round trip to a server
// nearby. It reports whether the operation has its reply; if not, it may have
// been sent, and is one that can be sent again.
func (l *lane) callDirectly(ctx context.Context, op *operation, by time.Time) bool {
	if !op.script.repeatable || !l.lanes.node.timely {
		return false
	}
	round, ok := l.enter()
	if !ok {
		return false
	}
	defer l.exit()
	defer l.landed(round)
	began := time.Now()
	limit := began.Add(directTime)
	if by.Before(limit) {
		limit = by
	}
	bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), limit)
	defer cancel()
	l.lanes.node.send(bounded, []*operation{op})
	l.took(time.Since(began))
	var failed net.Error
	timedOut := errors.As(op.reply.err, &failed) && failed.Timeout() || errors.Is(op.reply.err, context.DeadlineExceeded)
	return !timedOut
}

// enter counts a direct call, if there is room for one.
func (l *lane) enter() (round int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.slow || len(l.pending) > 0 || l.busy() >= maxFlights {
		return 0, false
	}
	l.direct++
	l.flights++
	l.lanes.workers.Add(1)
	return l.round, true
}

// exit ends a direct call, and has what has come meanwhile sent.
func (l *lane) exit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.direct--
	if len(l.pending) > 0 {
		l.summon()
	}
	l.lanes.workers.Done()
}

// took notes how long a call has taken.
func (l *lane) took(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = d > prompt
}
