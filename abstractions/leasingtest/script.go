package leasingtest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// Always is a number of times that stands for every call.
const Always = -1

// Fail makes the next calls of op fail with err before they take effect.
func Fail(op Op, times int, err error) Handler {
	return script(op, times, func(context.Context, func() error) error { return err })
}

// LoseReply lets the next calls of op take effect and then returns err instead of the
// answer, so that the caller does not know the outcome.
func LoseReply(op Op, times int, err error) Handler {
	return script(op, times, func(_ context.Context, apply func() error) error {
		_ = apply()
		return err
	})
}

// Hang blocks the next calls of op, without effect, until their context ends.
func Hang(op Op, times int) Handler {
	return script(op, times, func(ctx context.Context, _ func() error) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// Delay makes the next calls of op take effect after d. A call whose context
// ends sooner has no effect.
func Delay(op Op, times int, d time.Duration) Handler {
	return script(op, times, func(ctx context.Context, apply func() error) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return apply()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// DelayReply lets the next calls of op take effect at once and answers after
// d, whether or not the caller still waits.
func DelayReply(op Op, times int, d time.Duration) Handler {
	return script(op, times, func(_ context.Context, apply func() error) error {
		defer time.Sleep(d)
		return apply()
	})
}

func script(op Op, times int, decide func(ctx context.Context, apply func() error) error) Handler {
	var used atomic.Int64
	return func(ctx context.Context, call Call, apply func() error) error {
		if call.Op != op || times != Always && used.Add(1) > int64(times) {
			return apply()
		}
		return decide(ctx, apply)
	}
}

// NewManager returns a manager over a new scripted provider. The manager is closed at
// the end of the test; a lease that is not released by then fails the test, since in
// production Close would wait for the holder.
func NewManager(t testing.TB, options leasing.Options) (*leasing.Manager, *Provider) {
	t.Helper()
	p := NewProvider()
	return NewManagerOn(t, p, options), p
}

// NewManagerOn returns a manager over a provider, which several managers of a
// test may share as they would a server. See NewManager.
func NewManagerOn(t testing.TB, p abstractions.Provider, options leasing.Options) *leasing.Manager {
	t.Helper()
	m, err := leasing.NewManager(p, options)
	if err != nil {
		t.Fatalf("leasingtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeBound)
		defer cancel()
		// The empty name is invalid, but a closed manager returns ErrClosed before it checks the
		// name. In that case the test has closed the manager itself.
		_, closed := m.Inspect(ctx, "")
		var left *leasing.CloseError
		if err := m.Close(ctx); errors.As(err, &left) && len(left.InUse) > 0 && !errors.Is(closed, abstractions.ErrClosed) {
			t.Errorf("leasingtest: %v", err)
		}
	})
	return m
}

// closeBound is the time that the holders have to release their leases at the end of a
// test.
const closeBound = 2 * time.Second

// Lose ends a lease as if another holder or an operator had ended it, and returns
// after the lease has noticed the loss: its context has ended and its Err is a
// *leasing.LostError with the given reason.
func Lose(t testing.TB, p *Provider, lease abstractions.Lease, reason abstractions.LostReason) {
	t.Helper()
	p.mu.Lock()
	p.taken[lease.ID()] = reason
	p.mu.Unlock()
	if _, err := p.backend.Break(context.Background(), abstractions.BreakRequest{
		Name: lease.Name(), IfToken: lease.Token(), Immediate: true,
	}); err != nil {
		t.Fatalf("leasingtest: %v", err)
	}
	_ = lease.Renew(context.Background())
	if lease.Err() == nil {
		t.Fatalf("leasingtest: %q is still held; do its renewals reach this provider?", lease.Name())
	}
}
