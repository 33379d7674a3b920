package wakeup

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Bounds of a loop. Correctness does not depend on them, since waiters poll as well.
const (
	connectTimeout = 10 * time.Second // to connect, and to answer a ping
	defaultSilence = 15 * time.Second
	minPause       = 100 * time.Millisecond // between attempts to connect
	maxPause       = 5 * time.Second
)

// loop is the goroutine of a Listener's connection.
type loop struct {
	w     *Listener
	ctx   context.Context
	stop  context.CancelFunc
	state *state // guarded by w.mu
}

// state records whether the loop listens. err is valid, and no longer changes,
// after settled is closed.
type state struct {
	settled chan struct{}
	err     error // nil if the loop listens
}

func (s *state) isSettled() bool {
	select {
	case <-s.settled:
		return true
	default:
		return false
	}
}

func (l *loop) run() error {
	defer l.stop()
	again := false
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		conn, err := l.connect()
		l.settle(err)
		if err == nil {
			if again {
				l.w.wakeAll()
			}
			pause = minPause
			err = providerkit.Guard(func() error { return l.receive(conn) })
			_ = providerkit.Guard(func() error { conn.Close(); return nil })
			l.settle(err)
		}
		if l.ctx.Err() != nil || l.idle() {
			return nil
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-l.ctx.Done():
		}
		again = true
	}
}

func (l *loop) connect() (conn Connection, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, connectTimeout)
	defer cancel()
	err = providerkit.Guard(func() error {
		conn, err = l.w.Connect(ctx)
		return err
	})
	return conn, err
}

// receive passes messages on until the connection is lost, or no waiter is left.
func (l *loop) receive(conn Connection) error {
	silence := cmp.Or(l.w.Silence, defaultSilence)
	for {
		ctx, cancel := context.WithTimeout(l.ctx, silence)
		message, err := conn.Receive(ctx)
		silent := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			l.w.Wake(message)
		case l.ctx.Err() != nil || !silent || l.idle():
			return err
		default:
			if err := l.ping(conn); err != nil {
				return err
			}
		}
	}
}

// ping detects a connection whose other end has gone without notice.
func (l *loop) ping(conn Connection) error {
	ctx, cancel := context.WithTimeout(l.ctx, connectTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

// settle records whether the loop listens. While it does not, new waiters get the
// error at once.
func (l *loop) settle(err error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.closed {
		err = abstractions.ErrClosed
	}
	if l.state.isSettled() {
		l.state = &state{settled: make(chan struct{})}
	}
	l.state.err = err
	close(l.state.settled)
}

// idle reports whether the loop has no waiters, and if so lets another loop start.
func (l *loop) idle() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.loop == l && len(l.w.queues) > 0 {
		return false
	}
	if l.w.loop == l {
		l.w.loop = nil
	}
	return true
}
