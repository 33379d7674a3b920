package torture_test

import (
	"context"
	"errors"
	"strings"
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
	"github.com/distributedleasing/leasing/fencing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// alteredProvider is a provider with methods that tests replace.
type alteredProvider struct {
	leasing.Provider
	caps    func(c *leasing.Capabilities)
	acquire func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error)
	close   func()
}

func (c alteredProvider) Capabilities() leasing.Capabilities {
	caps := c.Provider.Capabilities()
	if c.caps != nil {
		c.caps(&caps)
	}
	return caps
}

func (c alteredProvider) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if c.acquire != nil {
		return c.acquire(ctx, req)
	}
	return c.Provider.Acquire(ctx, req)
}

func (c alteredProvider) Close() error {
	if c.close != nil {
		c.close()
	}
	return c.Provider.Close()
}

func (alteredProvider) As(any) bool { return false }

// lastOwner is the owner that acquires the names at the end of a run.
const lastOwner = "torture"

// Names must be free within the sum of the TTL, the margin, the provider's Lateness and the
// patience.
func TestNamesAreFreeWithinWhatIsStated_memory(t *testing.T) {
	options := torture.Options{
		For: minute / 12, Seed: 1, Repeatable: true, TTL: 4 * time.Second, Patience: 3 * time.Second,
		Manager: leasing.Options{Tuning: leasing.Tuning{DriftFactor: 0.05, DriftFloor: 30 * ms}},
	}
	report := virtual(t, options, func(p leasing.Provider) leasing.Provider {
		return alteredProvider{Provider: p, caps: func(c *leasing.Capabilities) { c.Lateness.Fixed = 7 * time.Second }}
	})
	require.Empty(t, report.Violations)
	h := recordOf(t, report).History
	require.Len(t, h.Free, report.Names)
	for _, f := range h.Free {
		require.Equal(t, 4*time.Second+230*ms+7*time.Second+3*time.Second, f.By-h.Closed)
		require.GreaterOrEqual(t, f.At, h.Closed)
	}
}

// A run leaves the names free, and closes every client that it opens.
func TestNothingIsLeftBehind_memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memlease.New(memlease.Options{})
		defer memory.Close()
		var opened, closed atomic.Int32
		report, err := torture.Run(context.Background(), torture.Options{
			For: minute / 12, Seed: 1, Repeatable: true, Workers: 3,
			Open: func(ctx context.Context) (leasing.Provider, error) {
				opened.Add(1)
				p, err := torture.Share(memory)(ctx)
				return alteredProvider{Provider: p, close: func() { closed.Add(1) }}, err
			},
		})
		require.NoError(t, err)
		require.EqualValues(t, 5, opened.Load(), "the workers', one to rehearse, and one to take the names")
		require.EqualValues(t, 5, closed.Load())
		for _, f := range recordOf(t, report).History.Free {
			record, err := memory.Inspect(t.Context(), abstractions.InspectRequest{Name: f.Name})
			require.NoError(t, err)
			require.False(t, record.Held, f.Name)
		}
	})
}

func TestClientUnderAPlanThatCannotWorkIsClosed_memory(t *testing.T) {
	opened, closed := 0, 0
	memory := memlease.New(memlease.Options{})
	_, err := torture.Run(t.Context(), torture.Options{
		Plan: chaos.Plan{Rules: []chaos.Rule{{}}},
		Open: func(context.Context) (leasing.Provider, error) {
			opened++
			return alteredProvider{Provider: memory, close: func() { closed++ }}, nil
		},
	})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	require.Positive(t, opened)
	require.Equal(t, opened, closed)
}

// stopsGranting wraps a provider so that it grants the names at the beginning of a run, but not at the
// end. At the end it refuses each acquire if answers is set, and otherwise does not answer.
func stopsGranting(answers bool) func(p leasing.Provider) leasing.Provider {
	return func(p leasing.Provider) leasing.Provider {
		var begun atomic.Bool
		return alteredProvider{Provider: p, acquire: func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
			switch {
			case req.Owner != lastOwner || !begun.Swap(true):
				return p.Acquire(ctx, req)
			case answers:
				return abstractions.Grant{}, leasing.ErrHeld
			}
			<-ctx.Done()
			return abstractions.Grant{}, ctx.Err()
		}}
	}
}

func TestNamesThatAreHeldAtTheEndAreLeaks_memory(t *testing.T) {
	report := virtual(t, torture.Options{For: minute / 12, Names: 2, Seed: 1, Repeatable: true}, stopsGranting(true))
	require.Equal(t, []torture.Check{history.CheckLeak, history.CheckLeak}, kindsOf(report))
}

func TestNamesOfUnknownStateAreNoLeaks_memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := torture.Run(context.Background(), torture.Options{
			Open: torture.Share(stopsGranting(false)(memlease.New(memlease.Options{}))), For: time.Second, Names: 2, Seed: 1, Repeatable: true,
		})
		require.ErrorContains(t, err, "is unknown")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestRunThatWaitsForNamesEndsWithItsContext_memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		var at time.Time
		_, err := torture.Run(ctx, torture.Options{
			Open: torture.Share(stopsGranting(true)(memlease.New(memlease.Options{}))), For: time.Second, Seed: 1, Repeatable: true,
			Progress: func(p torture.Progress) {
				if p.Phase == "waiting for names" {
					time.AfterFunc(100*ms, func() { at = time.Now(); cancel(why) })
				}
			},
		})
		require.ErrorIs(t, err, why)
		require.Less(t, time.Since(at), time.Second)
	})
}

// A resource that answers late or never causes no violation.
func TestResourceThatDoesNotAnswer_memory(t *testing.T) {
	var calls atomic.Int32
	silent := fencing.Fence(func(ctx context.Context, _ string, _ int64, _ func(context.Context) error) error {
		calls.Add(1)
		<-ctx.Done()
		return ctx.Err()
	})
	report := virtual(t, torture.Options{For: minute / 4, Seed: 1, Repeatable: true, Fence: silent}, nil)
	require.Empty(t, report.Violations)
	require.Positive(t, calls.Load())
	require.Zero(t, report.Accepted+report.Stale)
}

func TestWorkerThatDoesNotComeBackIsFound_memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stuck := fencing.Fence(func(ctx context.Context, _ string, _ int64, fn func(context.Context) error) error {
			<-release
			return fn(ctx)
		})
		report, err := torture.Run(context.Background(), torture.Options{
			Open: torture.Share(memlease.New(memlease.Options{})), For: time.Second, Workers: 1, Seed: 1, Repeatable: true, Fence: stuck,
		})
		require.NoError(t, err)
		require.Contains(t, kindsOf(report), history.CheckHang)
		require.Contains(t, report.String(), "worker 0 has not come back")
		close(release)
		time.Sleep(minute) // until the worker ends
	})
}

// A crashed worker does not release: its lease runs out, while others wait for the name.
func TestCrashedWorkersLeaveTheirLeasesBehind_memory(t *testing.T) {
	h := recordOf(t, virtual(t, torture.Options{For: 2 * minute, Seed: 1}, nil)).History
	left := map[string]bool{}
	for _, one := range h.Holds {
		if one.Ending == history.EndingAbandoned {
			left[one.Claim] = true
		}
	}
	require.NotEmpty(t, left)
	for _, o := range h.Operations {
		require.False(t, o.Layer == history.LayerBackend && o.Verb == "release" && left[o.Claim], "%v", o)
	}
}

// A fence that does not call its function makes each write fail, and causes no violation.
func TestFenceThatDoesNothing_memory(t *testing.T) {
	lazy := fencing.Fence(func(context.Context, string, int64, func(context.Context) error) error { return nil })
	report := virtual(t, torture.Options{For: minute / 12, Seed: 1, Repeatable: true, Fence: lazy}, nil)
	require.Empty(t, report.Violations)
	require.Zero(t, report.Accepted+report.Stale)
}

// Clocks may differ by the margin: a lease that ends early by the margin is not a violation.
func TestClocksMayDifferByTheMargin_memory(t *testing.T) {
	for short, ok := range map[time.Duration]bool{10 * ms: true, 300 * ms: false} {
		report := virtual(t, torture.Options{For: minute, Seed: 1, Repeatable: true, Plan: chaos.Partition(chaos.PartitionOptions{})}, func(p leasing.Provider) leasing.Provider {
			return oddProvider{Provider: alteredProvider{Provider: p, acquire: func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: req.Name, ID: req.ID, Owner: req.Owner, TTL: req.TTL - short, Metadata: req.Metadata})
				grant.TTL = req.TTL
				return grant, err
			}}, renew: func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				requested := req.TTL
				req.TTL -= short
				grant, err := p.Renew(ctx, req)
				grant.TTL = requested
				return grant, err
			}}
		})
		require.Equal(t, ok, report.OK(), "%v too early:\n%s", short, report)
	}
}

func TestReportNamesTheSeedOfTheRun_memory(t *testing.T) {
	report := virtual(t, torture.Options{For: time.Second, Seed: 9, Repeatable: true, Plan: chaos.Partition(chaos.PartitionOptions{Seed: 5})}, nil)
	require.EqualValues(t, 9, report.Seed)
	require.Contains(t, report.String(), "seed 9")
}

// An unfinished search is not a violation, but the verdict must mention the search.
func TestVerdict(t *testing.T) {
	one := torture.Violation{Check: history.CheckLeak, Name: "n"}
	for want, r := range map[string]torture.Report{
		"no violation":         {},
		"FAILED: 1 violation":  {Violations: []torture.Violation{one}},
		"FAILED: 2 violations": {Violations: []torture.Violation{one, one}, Undecided: []string{"n (client)"}},
		"no violation; 1 names with too many possible orders to try all": {Undecided: []string{"n (client)"}},
	} {
		require.Equal(t, want, r.Verdict())
		require.Equal(t, len(r.Violations) == 0, r.OK())
		require.Equal(t, want == "no violation", r.Err() == nil)
		if err := r.Err(); err != nil {
			require.ErrorContains(t, err, want)
		}
		require.Equal(t, len(r.Undecided), strings.Count(r.String(), "n (client)"), want)
	}
}

func TestReportShowsTheFirstViolations(t *testing.T) {
	r := torture.Report{Options: torture.Options{Command: "make it so"}}
	for n := 1; n <= 22; n++ {
		r.Violations = append(r.Violations, torture.Violation{Check: history.CheckLeak, Name: "n"})
		text := r.String()
		require.Equal(t, min(n, 20), strings.Count(text, "leak: n at"))
		require.Equal(t, n > 20, strings.Contains(text, "more\n"))
		require.Contains(t, text, "again: make it so")
	}
	require.Contains(t, r.String(), "and 2 more\n")
	r.Violations = nil
	require.NotContains(t, r.String(), "again:")
}
