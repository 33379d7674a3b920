package batch

import (
	"context"
	"time"
)

// callContext is the context of a call. It ends with none of the senders, only at its deadline.
type callContext struct {
	sender context.Context // its values are for what traces calls; nil if there are several
	by     time.Time
	ended  chan struct{} // nil if nobody is told of the end: clients give the deadline to the connection
}

func (c callContext) Deadline() (time.Time, bool) { return c.by, true }

func (c callContext) Done() <-chan struct{} { return c.ended }

func (c callContext) Err() error {
	select {
	case <-c.ended:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func (c callContext) Value(key any) any {
	if c.sender == nil {
		return nil
	}
	return c.sender.Value(key)
}

// contextOf is the context of a worker's call. It ends at the latest deadline of its senders.
func contextOf[T Operation](batch []*Request[T]) context.Context {
	var c callContext
	if len(batch) == 1 {
		c.sender = batch[0].Context
	}
	for _, r := range batch {
		if r.By.After(c.by) {
			c.by = r.By
		}
	}
	return c
}

// alarm ends the context of a direct call. It is used again unless it had to.
type alarm struct {
	ended chan struct{}
	timer *time.Timer
}

func newAlarm(by time.Time) *alarm {
	ended := make(chan struct{})
	return &alarm{ended, time.AfterFunc(time.Until(by), func() { close(ended) })}
}

// bounded is the context of a direct call. It ends at its deadline, also for what waits for a connection. done must be
// called after the call.
func (b *Batcher[T]) bounded(sender context.Context, by time.Time) (ctx context.Context, done func()) {
	a, _ := b.alarms.Get().(*alarm)
	if a == nil {
		a = newAlarm(by)
	} else {
		a.timer.Reset(time.Until(by))
	}
	return callContext{sender, by, a.ended}, func() {
		if a.timer.Stop() {
			b.alarms.Put(a)
		}
	}
}
