package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/distributedleasing/leasing/samples/internal/journal"
	"github.com/distributedleasing/leasing/samples/internal/show"
)

// log is what has happened, as the workers tell it.
type log struct {
	mu        sync.Mutex
	show      *show.Show
	dropped   int               // deliveries that were abandoned
	composed  map[string]int    // by message
	senders   map[string]string // by message: whose reply was sent
	broken    error             // the first promise that was
	stalling  bool              // somebody stalls or has stalled
	turnedOff int               // late replies that were refused
	replied   chan struct{}     // closed when the stalled message is answered
	once      sync.Once
}

func newLog(s *show.Show) *log {
	return &log{show: s, composed: map[string]int{}, senders: map[string]string{}, replied: make(chan struct{})}
}

// mayStall says whether the worker that gets the lease of a message now is to
// stall: the first one of a certain message.
func (l *log) mayStall(message string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return message == stalled && !l.stalling
}

// stall reports true to the first holder of that message's lease.
func (l *log) stall(message string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	stalls := message == stalled && !l.stalling
	l.stalling = l.stalling || stalls
	return stalls
}

func (l *log) abandoned() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped++
}

func (l *log) composes(worker, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.composed[message]++
	l.show.Line(worker, "composes the reply to %s", message)
}

// sent notes a reply that the outbox has taken.
func (l *log) sent(worker, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.show.Line(worker, "has sent the reply to %s", message)
	if earlier := l.senders[message]; earlier != "" {
		l.broken = fmt.Errorf("the reply to %s was sent by %s and by %s", message, earlier, worker)
		return
	}
	l.senders[message] = worker
	l.answered(message)
}

// answered notes that there is a reply to a message.
func (l *log) answered(message string) {
	if message == stalled {
		l.once.Do(func() { close(l.replied) })
	}
}

func (l *log) lost(worker, message string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.show.Line(worker, "stalls with the reply to %s: %v", message, err)
}

func (l *log) refused(worker, message string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turnedOff++
	l.show.Line(worker, "has its late reply to %s refused: %v", message, err)
}

// late notes that a late reply was not refused.
func (l *log) late(worker, message string, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = fmt.Errorf("the late reply of %s to %s was not refused (sent: %t)", worker, message, first)
}

// awaitReply waits until somebody has answered the stalled message.
func (l *log) awaitReply(ctx context.Context) error {
	select {
	case <-l.replied:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// judge compares what the workers say with what the outbox holds.
func (l *log) judge(ctx context.Context, outbox journal.Journal) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	replies, err := outbox.All(ctx)
	if err != nil {
		return err
	}
	if l.broken != nil {
		return l.broken
	}
	if len(replies) != messages {
		return fmt.Errorf("%d replies are in the outbox, for %d messages", len(replies), messages)
	}
	composed := 0
	for message, worker := range replies {
		if sender := l.senders[message]; sender != "" && sender != worker { // "": it never heard that it was sent
			return fmt.Errorf("%s was answered by %s, but %s says so", message, worker, sender)
		}
		composed += l.composed[message]
	}
	if l.turnedOff != 1 || l.dropped == 0 {
		return fmt.Errorf("late replies refused: %d, not 1; deliveries abandoned: %d", l.turnedOff, l.dropped)
	}
	l.show.OK("%d deliveries of %d messages: exactly one reply each", messages*copies, messages)
	l.show.OK("replies were composed %d times, and deliveries abandoned %d times", composed, l.dropped)
	l.show.OK("the late reply of the worker that had stalled was refused")
	return nil
}
