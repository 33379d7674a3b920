package torture_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// oddProvider has no optional abilities. Tests replace its methods.
type oddProvider struct {
	leasing.Provider
	renew func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error)
	close func() error
}

func (o oddProvider) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	if o.renew == nil {
		return o.Provider.Renew(ctx, req)
	}
	return o.renew(ctx, req)
}

func (o oddProvider) Close() error {
	if o.close == nil {
		return nil
	}
	return o.close()
}

func (oddProvider) As(any) bool { return false }

func TestCallThatDoesNotEndWithItsContextIsFound_memory(t *testing.T) {
	report := virtual(t, torture.Options{For: minute / 2, Seed: 1, Patience: 5 * time.Second, Manager: leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 300 * ms}}}, func(p leasing.Provider) leasing.Provider {
		return oddProvider{Provider: p, renew: func(_ context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
			time.Sleep(8 * time.Second)
			return p.Renew(context.Background(), req)
		}}
	})
	require.Contains(t, kindsOf(report), history.CheckHang)
}

func kindsOf(report *torture.Report) (kinds []torture.Check) {
	for _, v := range report.Violations {
		kinds = append(kinds, v.Check)
	}
	return kinds
}

func TestGoroutineThatIsLeftBehindIsFound_memory(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	shared := torture.Share(memlease.New(memlease.Options{}))
	report, err := torture.Run(t.Context(), torture.Options{
		Workers: 2, Names: 1, For: 300 * ms, TTL: 200 * ms, Patience: 300 * ms,
		Open: func(ctx context.Context) (leasing.Provider, error) {
			go func() { <-release }()
			return shared(ctx)
		},
	})
	require.NoError(t, err)
	require.Equal(t, []torture.Check{history.CheckGoroutine}, kindsOf(report))
	require.Contains(t, report.Violations[0].Text, "TestGoroutineThatIsLeftBehindIsFound")

	report, err = torture.Run(t.Context(), torture.Options{Open: shared, Workers: 2, Names: 1, For: 300 * ms, TTL: 200 * ms, Patience: 300 * ms})
	require.NoError(t, err)
	require.Empty(t, report.Violations, "what another run has left behind is none of this one's")
}

func TestTooManyGoroutinesAreFound_memory(t *testing.T) {
	for many, found := range map[int]bool{50: false, 250: true} {
		report := virtual(t, torture.Options{Workers: 1, For: minute / 12, Seed: 1, Repeatable: true}, func(p leasing.Provider) leasing.Provider {
			var once sync.Once
			return alteredProvider{Provider: p, acquire: func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				once.Do(func() {
					for range many {
						go time.Sleep(minute / 10)
					}
				})
				return p.Acquire(ctx, req)
			}}
		})
		require.Equal(t, found, slices.Contains(kindsOf(report), history.CheckGrowth), "%d:\n%s", many, report)
	}
}

// A goroutine that was started before the run does not count.
func TestOtherGoroutinesAreNotFound_memory(t *testing.T) {
	ended := make(chan struct{})
	go func() { <-ended }()
	t.Cleanup(func() { close(ended) })
	report, err := torture.Run(t.Context(), torture.Options{
		Open: torture.Share(memlease.New(memlease.Options{})), Workers: 3, Names: 2, For: 500 * ms, TTL: 300 * ms,
	})
	require.NoError(t, err)
	require.Empty(t, report.Violations)
}

func TestRunEndsWithItsContext_memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(3*time.Second, func() { cancel(why) })
		_, err := torture.Run(ctx, torture.Options{Open: torture.Share(memlease.New(memlease.Options{})), For: minute})
		require.ErrorIs(t, err, why)
	})
}

func TestClientThatCannotBeOpenedOrClosed_memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened, closed atomic.Int32
		trouble := errors.New("trouble")
		memory := memlease.New(memlease.Options{})
		options := torture.Options{For: time.Second, Open: func(context.Context) (leasing.Provider, error) {
			if opened.Add(1) == 3 {
				return nil, trouble
			}
			return oddProvider{Provider: memory, close: func() error { closed.Add(1); return nil }}, nil
		}}
		_, err := torture.Run(context.Background(), options)
		require.ErrorIs(t, err, trouble)
		require.EqualValues(t, 2, closed.Load(), "those that were open are closed")

		options.Open = func(context.Context) (leasing.Provider, error) {
			return oddProvider{Provider: memory, close: func() error { return trouble }}, nil
		}
		_, err = torture.Run(context.Background(), options)
		require.ErrorIs(t, err, trouble)
	})
}

func TestDisturbanceIsReported_memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := false
		options := torture.Options{For: 5 * time.Second, Open: torture.Share(memlease.New(memlease.Options{}))}
		options.Disturb = func(ctx context.Context, report func(torture.Disturbance)) error {
			report(torture.Disturbance{Kind: "rain", For: time.Second})
			<-ctx.Done()
			time.Sleep(minute) // to undo the disturbance
			over = true
			return nil
		}
		report, err := torture.Run(context.Background(), options)
		require.NoError(t, err)
		require.True(t, over, "it is waited for")
		require.Equal(t, map[string]int{"rain": 1}, report.Disturbances)
		require.Contains(t, report.String(), "1 rain")

		trouble := errors.New("trouble")
		options.Disturb = func(context.Context, func(torture.Disturbance)) error { return trouble }
		began := time.Now()
		_, err = torture.Run(context.Background(), options)
		require.ErrorIs(t, err, trouble)
		require.Zero(t, time.Since(began).Truncate(time.Second), "it ends the run")
	})
}

func TestOptionsThatCannotWork(t *testing.T) {
	open := torture.Share(memlease.New(memlease.Options{}))
	for field, options := range map[string]torture.Options{
		"Options.Open":           {},
		"Options.Workers":        {Open: open, Workers: -1},
		"Options.Names":          {Open: open, Names: 10_000},
		"Options.For":            {Open: open, For: -1},
		"Options.TTL":            {Open: open, TTL: leasing.Infinite},
		"Options.Patience":       {Open: open, Patience: -1},
		"Options.MaxSearchSteps": {Open: open, MaxSearchSteps: -1},
		"Options.Manager.TTL":    {Open: open, Manager: leasing.Options{TTL: 1}},
		"Options.Manager.Owner":  {Open: open, Manager: leasing.Options{Owner: "me"}},
	} {
		_, err := torture.Run(t.Context(), options)
		invalid := (*leasing.InvalidError)(nil)
		require.ErrorAs(t, err, &invalid, field)
		require.Equal(t, field, invalid.Field)
	}
	_, err := torture.Run(t.Context(), torture.Options{Open: open, Plan: chaos.Plan{Rules: []chaos.Rule{{}}}})
	require.ErrorIs(t, err, leasing.ErrInvalid, "a plan that can't work")
	_, err = torture.Run(t.Context(), torture.Options{Open: func(context.Context) (leasing.Provider, error) { return nil, nil }})
	require.ErrorContains(t, err, "no provider")
}

// refuser refuses every acquire while its flag is on.
type refuser struct {
	leasing.Provider
	on atomic.Bool
}

func (r *refuser) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if r.on.Load() {
		return abstractions.Grant{}, leasing.ErrDenied
	}
	return r.Provider.Acquire(ctx, req)
}

func (*refuser) As(any) bool { return false }

// A run that can't be completed or checked returns an error instead of violations.
func TestRunThatCannotBeMadeIsAnError_memory(t *testing.T) {
	running := func(options torture.Options, provider leasing.Provider) error {
		options.For, options.TTL, options.Workers, options.Names = 200*ms, 100*ms, 2, 2
		if options.Patience == 0 {
			options.Patience = 200 * ms
		}
		options.Open = torture.Share(provider)
		_, err := torture.Run(t.Context(), options)
		return err
	}
	denied := &refuser{Provider: memlease.New(memlease.Options{})}
	denied.on.Store(true)
	require.ErrorIs(t, running(torture.Options{}, denied), leasing.ErrDenied, "from the beginning")
	later := &refuser{Provider: memlease.New(memlease.Options{})}
	err := running(torture.Options{Disturb: func(ctx context.Context, _ func(torture.Disturbance)) error {
		<-ctx.Done()
		later.on.Store(true)
		return nil
	}}, later)
	require.ErrorIs(t, err, leasing.ErrDenied)
	require.ErrorContains(t, err, "is unknown")
	failed := errors.New("could not be put right")
	err = running(torture.Options{Disturb: func(ctx context.Context, _ func(torture.Disturbance)) error {
		<-ctx.Done()
		return failed
	}}, memlease.New(memlease.Options{}))
	require.ErrorIs(t, err, failed)
	require.ErrorIs(t, running(torture.Options{Manager: leasing.Options{Tuning: leasing.Tuning{DriftFloor: time.Second}}}, memlease.New(memlease.Options{})), leasing.ErrInvalid)
	err = running(torture.Options{Patience: 5 * time.Second, Process: func() *exec.Cmd { return exec.Command("echo", "PASS") }}, memlease.New(memlease.Options{}))
	require.ErrorContains(t, err, "has not called WorkerMain")
}

// A server that forgets its leases breaks an assumption, so a name may have two holders. The
// checks that do not depend on the assumption are still made.
func TestBrokenAssumptionsAreLeftOut_memory(t *testing.T) {
	forgetful := func(p leasing.Provider) leasing.Provider {
		go func() {
			for range 20 {
				time.Sleep(700 * ms)
				for i := range 4 {
					_, _ = p.Break(context.Background(), abstractions.BreakRequest{Name: fmt.Sprint("torture/run/", i+1), Immediate: true})
				}
			}
		}()
		return p
	}
	options := torture.Options{For: minute / 4, Seed: 1, Repeatable: true}
	strict := virtual(t, options, forgetful)
	require.Contains(t, kindsOf(strict), history.CheckOverlap)
	options.AssumptionsBroken = true
	loose := virtual(t, options, forgetful)
	require.Empty(t, loose.Violations)
	require.Contains(t, loose.String(), "not checked")
}

// A lease whose grant arrives at the end of its trust is lost at once, while the backend keeps the lease for a whole TTL.
func TestAGrantThatComesAsItsTrustEnds_memory(t *testing.T) {
	t.Parallel()
	slow := chaos.Plan{Rules: []chaos.Rule{{
		Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 1900 * time.Millisecond, Jitter: 78 * time.Millisecond}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpAcquire}},
		When: chaos.Policy{Probability: 0.5},
	}}}
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		slow.Seed = seed
		report := virtual(t, torture.Options{Plan: slow, Seed: seed, For: 2 * minute, Workers: 16, Names: 4}, nil)
		require.Empty(t, report.Violations, "%s", report)
	}
}
