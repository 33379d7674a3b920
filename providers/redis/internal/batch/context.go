package batch

import (
	"context"
	"time"
)

// callContext is the context of a call. It has the values of a sender's, for what traces calls, and a deadline of its own.
type callContext struct {
	context.Context
	by    time.Time
	ended chan struct{} // nil if nobody is told of the end: clients give the deadline to the connection
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

// contextOf is the context of a worker's call. It ends with none of the senders, only at the latest deadline of all. The
// values are those of a sender that is alone.
func contextOf[T Operation](batch []*Request[T]) context.Context {
	c := callContext{Context: context.Background()}
	if len(batch) == 1 {
		c.Context = context.WithoutCancel(batch[0].Context)
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

// bounded is the context of a direct call. It ends at its deadline, also for what waits for a connection. done must be
// called after the call.
func (b *Batcher[T]) bounded(sender context.Context, by time.Time) (ctx context.Context, done func()) {
	a, _ := b.alarms.Get().(*alarm)
	if a == nil {
		ended := make(chan struct{})
		a = &alarm{ended, time.AfterFunc(time.Until(by), func() { close(ended) })}
	} else {
		a.timer.Reset(time.Until(by))
	}
	return callContext{context.WithoutCancel(sender), by, a.ended}, func() {
		if a.timer.Stop() {
			b.alarms.Put(a)
		}
	}
}
