package leasingtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// reporter is a worker of an application.
type reporter struct {
	manager *leasing.Manager
	written []int64 // the tokens of the reports
}

var errBusy = errors.New("another process writes the report")

func (r *reporter) report(ctx context.Context) error {
	err := r.manager.With(leasing.AcquireOptions{TTL: time.Minute}).TryDo(ctx, "jobs/report", func(ctx context.Context, lease *leasing.Lease) error {
		if err := lease.Renew(ctx); err != nil {
			return err
		}
		r.written = append(r.written, lease.Token())
		return nil
	})
	if errors.Is(err, leasing.ErrHeld) {
		return errBusy
	}
	return err
}

// The unit test of an application's worker needs only the fake.
func TestFakeTestsAWorker(t *testing.T) {
	fake := leasingtest.NewFake("worker-1")
	r := &reporter{manager: fake.Manager()}
	require.NoError(t, r.report(t.Context()))
	require.Empty(t, fake.Held(), "the worker has released its lease")

	fake.Take("jobs/report", "worker-2")
	require.ErrorIs(t, r.report(t.Context()), errBusy)
	fake.Free("jobs/report")
	fake.Fail(leasing.ErrUnavailable)
	require.ErrorIs(t, r.report(t.Context()), leasing.ErrUnavailable)
	require.NoError(t, r.report(t.Context()))
	require.Equal(t, []int64{1, 3}, r.written, "the second token was worker-2's")
}

func TestFakeEndsALease(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*leasingtest.Fake, *leasing.Lease) error
		want error
	}{
		"lost":     {func(f *leasingtest.Fake, _ *leasing.Lease) error { f.Lose("n", leasing.LostTaken); return nil }, leasing.ErrLost},
		"released": {func(_ *leasingtest.Fake, l *leasing.Lease) error { return l.Release(context.Background()) }, leasing.ErrReleased},
		"handed over": {func(_ *leasingtest.Fake, l *leasing.Lease) error {
			_, err := l.HandOver(context.Background())
			return err
		}, leasing.ErrHandedOver},
		"broken": {func(f *leasingtest.Fake, _ *leasing.Lease) error {
			_, err := f.Manager().Break(context.Background(), "n", leasing.BreakOptions{Actor: "ann"})
			return err
		}, leasing.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			f := leasingtest.NewFake("me")
			var events []leasing.EventKind
			defer f.Manager().Subscribe(func(e leasing.Event) { events = append(events, e.Kind) })()
			l, err := f.Manager().Acquire(t.Context(), "n")
			require.NoError(t, err)
			require.NoError(t, l.Err())
			require.NoError(t, test.end(f, l))
			<-l.Done()
			require.ErrorIs(t, context.Cause(l.Context()), test.want)
			require.ErrorIs(t, l.Renew(t.Context()), test.want)
			require.Zero(t, l.Remaining())
			require.Len(t, events, 2)
			require.Empty(t, f.Held())
		})
	}
}

func TestFakeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := leasingtest.NewFake("me")
		f.Take("n", "other")
		_, err := f.Manager().With(leasing.AcquireOptions{WaitLimit: time.Second}).Acquire(t.Context(), "n")
		require.ErrorIs(t, err, leasing.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = f.Manager().Acquire(ctx, "n")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, leasing.ErrHeld)
		time.AfterFunc(time.Minute, func() { f.Free("n") })
		l, err := f.Manager().Acquire(t.Context(), "n")
		require.NoError(t, err)

		closed := make(chan error, 1)
		go func() { closed <- f.Manager().Close(context.Background()) }()
		<-l.Done()
		require.ErrorIs(t, l.Err(), leasing.ErrClosed)
		require.NoError(t, l.Renew(t.Context()), "renewals go on until the release")
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, <-closed)
		_, err = f.Manager().TryAcquire(t.Context(), "n")
		require.ErrorIs(t, err, leasing.ErrClosed)
	})
}
