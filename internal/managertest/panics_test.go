package managertest_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// The tests in this file use foreign code (contexts, instruments, Random, providers and their errors) that calls the library,
// panics or hangs.

// errHookContext is a context whose Err calls a function.
type errHookContext struct {
	context.Context
	hook func()
}

func (c errHookContext) Err() error { c.hook(); return c.Context.Err() }

func TestTrap_T67_ContextMayAskTheLease(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		ctx := errHookContext{t.Context(), func() { _, _ = l.Remaining(), l.Err() }}
		require.NoError(t, l.Renew(ctx))
		require.NoError(t, l.Release(ctx))
	})
}

func TestTrap_T67_ContextThatPanicsFreezesNothing(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		other, err := m.Acquire(t.Context(), "other")
		require.NoError(t, err)
		var armed atomic.Bool
		armed.Store(true)
		ctx := errHookContext{t.Context(), func() {
			if armed.Load() {
				panic("Err")
			}
		}}
		require.Panics(t, func() { _ = l.Renew(ctx) })
		func() {
			defer func() { _ = recover() }()
			_ = other.Release(ctx)
		}()
		armed.Store(false)
		time.Sleep(5 * time.Minute)
		require.NoError(t, l.Err())
		require.Positive(t, l.Renewals())
		require.Error(t, other.Err())
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, m.Close(t.Context()), "nothing is left between two states")
	})
}

// doneHookContext is a context whose Done calls a function.
type doneHookContext struct {
	context.Context
	hook func()
}

func (c doneHookContext) Done() <-chan struct{} { c.hook(); return c.Context.Done() }

// A renewal that was begun but is never sent would block all later renewals.
func TestTrap_T67_ContextThatPanicsBeginsNoRenewal(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		require.Panics(t, func() { _ = l.Renew(doneHookContext{t.Context(), func() { panic("Done") }}) })
		time.Sleep(5 * time.Minute)
		require.NoError(t, l.Renew(t.Context()))
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, m.Close(t.Context()))
	})
}

func TestTrap_T67_RandomMayAskTheLeaseAndPanic(t *testing.T) {
	var lease atomic.Pointer[*leasing.Lease]
	random := func() float64 {
		if l := lease.Load(); l != nil {
			_, _ = (*l).Remaining(), (*l).Err()
			panic("Random")
		}
		return 0.5
	}
	virtual(t, leasing.Options{Tuning: leasing.Tuning{Random: random}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		lease.Store(&l)
		p.Use(leasingtest.Fail(leasingtest.Renew, 2, errNetwork))
		time.Sleep(5 * time.Minute)
		require.NoError(t, l.Err())
		p.Use(leasingtest.Fail(leasingtest.Release, 2, errNetwork))
		require.NoError(t, l.Release(t.Context()))
	})
}

// hooked is a MeterProvider whose instruments call a function.
type hooked struct {
	noop.MeterProvider
	hook func(instrument string)
}

type hookedMeter struct {
	noop.Meter
	hook func(string)
}

type hookedCounter struct {
	noop.Int64Counter
	hook func()
}

type hookedUpDown struct {
	noop.Int64UpDownCounter
	hook func()
}

type hookedHistogram struct {
	noop.Float64Histogram
	hook func()
}

func (p hooked) Meter(string, ...metric.MeterOption) metric.Meter { return hookedMeter{hook: p.hook} }

func (m hookedMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return hookedCounter{hook: func() { m.hook(name) }}, nil
}

func (m hookedMeter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return hookedUpDown{hook: func() { m.hook(name) }}, nil
}

func (m hookedMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return hookedHistogram{hook: func() { m.hook(name) }}, nil
}

func (hookedCounter) Enabled(context.Context) bool   { return true }
func (hookedUpDown) Enabled(context.Context) bool    { return true }
func (hookedHistogram) Enabled(context.Context) bool { return true }

func (c hookedCounter) Add(context.Context, int64, ...metric.AddOption)           { c.hook() }
func (c hookedUpDown) Add(context.Context, int64, ...metric.AddOption)            { c.hook() }
func (h hookedHistogram) Record(context.Context, float64, ...metric.RecordOption) { h.hook() }

func TestTrap_T67_InstrumentsMayAskTheLease(t *testing.T) {
	var lease atomic.Pointer[*leasing.Lease]
	var manager atomic.Pointer[*leasing.Manager]
	calls := map[string]*atomic.Int64{}
	for _, instrument := range []string{"leasing.acquire.duration", "leasing.active.count", "leasing.renewal.failure", "leasing.renewal.success", "leasing.renewal.margin", "leasing.lost", "leasing.release.duration", "leasing.held.duration"} {
		calls[instrument] = &atomic.Int64{}
	}
	meters := hooked{hook: func(instrument string) {
		if n := calls[instrument]; n != nil {
			n.Add(1)
		}
		if l := lease.Load(); l != nil {
			_, _ = (*l).Remaining(), (*l).Err()
			_ = (*manager.Load()).Health(context.Background())
		}
	}}
	virtual(t, leasing.Options{MeterProvider: meters}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		manager.Store(&m)
		l := acquire(t, m, nil)
		lease.Store(&l)
		p.Use(leasingtest.Fail(leasingtest.Renew, 2, errNetwork))
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		leasingtest.Lose(t, p, l, leasing.LostTaken)
		l = acquire(t, m, nil)
		lease.Store(&l)
		require.NoError(t, l.Release(t.Context()))
		for instrument, n := range calls {
			require.Positive(t, n.Load(), instrument)
		}
	})
}

// hookError is an error of a provider whose Is calls a function.
type hookError struct{ hook func() }

func (hookError) Error() string          { return "curious" }
func (e hookError) Is(target error) bool { e.hook(); return target == leasing.ErrUnavailable }

func TestTrap_T67_ErrorsOfAProviderMayAskTheLease(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		asking := hookError{func() { _, _ = l.Remaining(), l.Err() }}
		p.Use(leasingtest.Fail(leasingtest.Renew, 2, asking))
		require.ErrorIs(t, l.Renew(t.Context()), leasing.ErrUnavailable)
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		p.Use(leasingtest.Fail(leasingtest.Release, 2, asking))
		require.NoError(t, l.Release(t.Context()))
	})
}

func TestTrap_T69_PanicOfAnInstrumentLeavesNothingBetweenTwoStates(t *testing.T) {
	for _, instrument := range []string{"leasing.acquire.duration", "leasing.active.count", "leasing.release.duration", "leasing.held.duration"} {
		var armed atomic.Bool
		virtual(t, leasing.Options{MeterProvider: hooked{hook: func(name string) {
			if name == instrument && armed.Load() {
				panic(name)
			}
		}}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			l := acquire(t, m, nil)
			armed.Store(true)
			func() {
				defer func() { _ = recover() }()
				if other, err := m.Acquire(t.Context(), "other"); err == nil {
					_ = other.Release(t.Context())
				}
			}()
			func() {
				defer func() { _ = recover() }()
				_ = l.Release(t.Context())
			}()
			armed.Store(false)
			synctest.Wait()
			_ = l.Release(t.Context())
			require.ErrorIs(t, l.Err(), leasing.ErrReleased)
			time.Sleep(time.Minute)
			record, err := m.Inspect(t.Context(), "other")
			require.NoError(t, err)
			require.False(t, record.Held, "%s: renewed for nobody", instrument)
			require.NoError(t, m.Close(t.Context()), instrument)
		})
	}
}

// everyOp calls each operation of a manager and of a lease, and returns the errors.
func everyOp(ctx context.Context, m *leasing.Manager, l *leasing.Lease) map[leasingtest.Op]error {
	errs := map[leasingtest.Op]error{}
	if other, err := m.TryAcquire(ctx, "other"); err != nil {
		errs[leasingtest.Acquire] = err
	} else {
		_ = other.Release(ctx)
	}
	if err := l.Renew(ctx); err != nil {
		errs[leasingtest.Renew] = err
	}
	if _, err := m.Inspect(ctx, name); err != nil {
		errs[leasingtest.Inspect] = err
	}
	if _, err := m.Break(ctx, "third", leasing.BreakOptions{}); err != nil {
		errs[leasingtest.Break] = err
	}
	for _, err := range m.List(ctx, leasing.ListOptions{}) {
		if err != nil {
			errs[leasingtest.List] = err
		}
	}
	if health := m.Health(ctx); health.Error != "" {
		errs[leasingtest.Ping] = fmt.Errorf("%w: %s", leasing.ErrUnavailable, health.Error)
	}
	if err := l.Release(ctx); err != nil {
		errs[leasingtest.Release] = err
	}
	return errs
}

var allOps = []leasingtest.Op{leasingtest.Acquire, leasingtest.Renew, leasingtest.Inspect, leasingtest.Break, leasingtest.List, leasingtest.Ping, leasingtest.Release}

func TestTrap_T69_PanicOfAProviderIsAnUnknownOutcome(t *testing.T) {
	for how, end := range map[string]func(){"panic": func() { panic("bug") }, "Goexit": runtime.Goexit, "panic in the caller's goroutine": func() { panic("bug") }} {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, nil))
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			var backend leasing.Provider = p
			if how == "panic in the caller's goroutine" {
				backend = promptProvider{p}
			}
			m := leasingtest.NewManagerOn(t, backend, leasing.Options{Logger: logger, TTL: 10 * time.Second})
			l := acquire(t, m, nil)
			remove := p.Use(func(_ context.Context, _ leasingtest.Call, apply func() error) error {
				_ = apply()
				end()
				return nil
			})
			errs := everyOp(t.Context(), m, l)
			for _, op := range allOps {
				require.ErrorIs(t, errs[op], leasing.ErrUnavailable, "%s in %s", how, op)
			}
			remove()
			time.Sleep(20 * time.Second)
			for _, n := range []string{name, "other"} {
				record, err := m.Inspect(t.Context(), n)
				require.NoError(t, err)
				require.False(t, record.Held, "%s: %s was not cleaned up", how, n)
			}
			require.NoError(t, m.Close(t.Context()))
		})
		require.Contains(t, out.String(), "leasing: the provider panicked", how)
		require.Equal(t, how != "Goexit", strings.Contains(out.String(), "panics_test.go"), "with its stack")
	}
}

// promptProvider is a provider that declares HeedsContext.
type promptProvider struct{ *leasingtest.Provider }

func (p promptProvider) Capabilities() leasing.Capabilities {
	c := p.Provider.Capabilities()
	c.HeedsContext = true
	return c
}

func TestTrap_T69_PanicOfAWaiterIsIsolated(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Wait {
				panic("bug")
			}
			return apply()
		})
		time.AfterFunc(time.Second, func() { _ = l.Release(context.Background()) })
		next := acquire(t, m, nil)
		require.NoError(t, next.Release(t.Context()))
	})
}

func TestTrap_T69_NilContext(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var none context.Context
		l, err := m.Acquire(none, name)
		require.NoError(t, err)
		require.Empty(t, everyOp(none, m, l))
		require.ErrorIs(t, l.Err(), leasing.ErrReleased)
		require.NoError(t, m.Do(none, name, func(context.Context, *leasing.Lease) error { return nil }))
		require.NoError(t, m.Close(none))
	})
}

func TestTrap_T70_ProviderThatHeedsNoContextDelaysNoCall(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		healthy, err := m.Acquire(t.Context(), "healthy")
		require.NoError(t, err)
		unhang := make(chan struct{})
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Name != "healthy" {
				<-unhang
			}
			return apply()
		})
		calls := map[string]func(ctx context.Context) error{
			"acquire": func(ctx context.Context) error { _, err := m.Acquire(ctx, "other"); return err },
			"try":     func(ctx context.Context) error { _, err := m.TryAcquire(ctx, "other"); return err },
			"inspect": func(ctx context.Context) error { _, err := m.Inspect(ctx, name); return err },
			"break":   func(ctx context.Context) error { _, err := m.Break(ctx, "third", leasing.BreakOptions{}); return err },
			"list": func(ctx context.Context) error {
				for _, err := range m.List(ctx, leasing.ListOptions{}) {
					return err
				}
				return nil
			},
			"health": func(ctx context.Context) error { _ = m.Health(ctx); return context.DeadlineExceeded },
			"renew":  l.Renew,
		}
		within := func(what string, bound time.Duration, call func(ctx context.Context) error) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			start := time.Now()
			require.Error(t, call(ctx), what)
			require.LessOrEqual(t, time.Since(start), bound, what)
		}
		for what, call := range calls {
			within(what, 2100*time.Millisecond, call)
		}
		within("release", 3100*time.Millisecond, l.Release) // Release waits one more second
		time.Sleep(5 * time.Minute)
		require.NoError(t, healthy.Err(), "others are renewed")
		require.NoError(t, healthy.Release(t.Context()))
		close(unhang)
		time.Sleep(time.Minute)
		for _, n := range []string{name, "other"} {
			record, err := m.Inspect(t.Context(), n)
			require.NoError(t, err)
			require.False(t, record.Held, "%s: what came too late was not given back", n)
		}
	})
}

func TestTrap_T70_ProviderThatHeedsNoContextCollectsNoGoroutines(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		unhang := make(chan struct{})
		p.Use(func(_ context.Context, _ leasingtest.Call, apply func() error) error { <-unhang; return apply() })
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		before := runtime.NumGoroutine()
		go func() { _, _ = m.Acquire(ctx, name) }()
		time.Sleep(12 * time.Hour)
		require.Less(t, runtime.NumGoroutine()-before, 20)
		require.Less(t, p.Count(leasingtest.Acquire), 10)
		cancel()
		synctest.Wait()
		close(unhang)
	})
}

func TestTrap_T16_GrantThatComesAfterEverythingIsReleased(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Acquire && call.N == 1 {
				time.Sleep(time.Hour) // the clean-up is over, and the claim's ID is forgotten
			}
			return apply()
		})
		_, err := m.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		for range 20 {
			time.Sleep(time.Minute)
			l, err := m.TryAcquire(t.Context(), name)
			require.NoError(t, err)
			require.NoError(t, l.Release(t.Context()))
		}
		time.Sleep(40*time.Minute + time.Second)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held, "nobody holds it")
	})
}
