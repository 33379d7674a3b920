package sqllease

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/jackc/pgx/v5"
)

// Bounds of a listener. Nobody depends on them: those who wait poll as well.
const (
	listenTimeout  = 10 * time.Second // to connect, or to answer a ping
	listenSilence  = 30 * time.Second // after which the connection is checked
	listenPauseMin = 100 * time.Millisecond
	listenPauseMax = 15 * time.Second // between attempts to connect
)

// listener is a connection that listens for all the waiters of a provider, and
// its goroutine. It begins when the first waiter comes, connects again when the
// connection is lost, and ends with close, or when nobody has been waiting for a while.
type listener struct {
	w     *wakeups
	ctx   context.Context
	stop  context.CancelFunc
	state *listening // guarded by w.mu
}

// listening is whether the listener listens, which is known, and no longer
// changes, when settled is closed.
type listening struct {
	settled chan struct{}
	err     error // nil if it listens
}

func newListener(w *wakeups) *listener {
	l := &listener{w: w, state: &listening{settled: make(chan struct{})}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

func (l *listener) run() {
	defer l.stop()
	again := false
	for pause := listenPauseMin; ; pause = min(2*pause, listenPauseMax) {
		conn, err := l.connect()
		l.settle(err)
		if err == nil {
			if again {
				l.w.wake(everybody) // what was said meanwhile was missed
			}
			pause = listenPauseMin
			err = l.receive(conn)
			hangUp(conn)
			l.settle(err)
		}
		if l.ctx.Err() != nil || l.idle() {
			return
		}
		wait(l.ctx, pause/2+rand.N(pause/2))
		again = true
	}
}

func (l *listener) connect() (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(l.ctx, listenTimeout)
	defer cancel()
	conn, err := l.w.connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{l.w.channel}.Sanitize()); err != nil {
		hangUp(conn)
		return nil, err
	}
	return conn, nil
}

// receive passes hints on until the connection is lost, or idle.
func (l *listener) receive(conn *pgx.Conn) error {
	for {
		silence, cancel := context.WithTimeout(l.ctx, l.w.silence)
		notification, err := conn.WaitForNotification(silence)
		silent := silence.Err() != nil
		cancel()
		switch {
		case err == nil:
			l.w.wake(notification.Payload)
		case l.ctx.Err() != nil || !silent || l.idle():
			return err
		default:
			if err := l.check(conn); err != nil {
				return err
			}
		}
	}
}

// check finds out about a connection whose other end is gone without a word.
func (l *listener) check(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, listenTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

// settle says whether the listener listens. While it can't, those who come are
// told so at once.
func (l *listener) settle(err error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.closed {
		err = abstractions.ErrClosed
	}
	select {
	case <-l.state.settled:
		l.state = &listening{settled: make(chan struct{})}
	default:
	}
	l.state.err = err
	close(l.state.settled)
}

// idle makes way for another listener if nobody waits.
func (l *listener) idle() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.current == l && len(l.w.waiters) > 0 {
		return false
	}
	if l.w.current == l {
		l.w.current = nil
	}
	return true
}

func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}
