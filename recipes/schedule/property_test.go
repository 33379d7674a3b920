package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// step is one thing that happens in a random history.
type step struct {
	What    string
	Process int
	After   time.Duration // since the step before
	For     time.Duration
	Times   int
	Op      leasingtest.Op
}

// behaviour describes a process and its job.
type behaviour struct {
	Skew            time.Duration // of its clock
	Duration        time.Duration // the duration of the job
	EndsWithContext bool          // whether the job ends with its context
	Fails           bool
	CatchUp         bool
}

func drawStep(t *rapid.T) step {
	return step{
		What:    rapid.SampledFrom([]string{"fail", "lose reply", "hang", "delay", "delay reply", "heal", "heal", "break", "restart", "wait"}).Draw(t, "what"),
		Process: rapid.IntRange(0, 2).Draw(t, "process"),
		After:   time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(t, "after")),
		For:     time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "for")),
		Times:   rapid.SampledFrom([]int{1, 2, 3, 100}).Draw(t, "times"),
		Op:      rapid.SampledFrom([]leasingtest.Op{leasingtest.Renew, leasingtest.Acquire, leasingtest.Release, leasingtest.Inspect}).Draw(t, "op"),
	}
}

func drawBehaviour(t *rapid.T) behaviour {
	minutes := rapid.Int64Range(-20, 20)
	return behaviour{
		Skew:            time.Duration(minutes.Draw(t, "skew")) * time.Minute,
		Duration:        time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(t, "duration")),
		EndsWithContext: rapid.Bool().Draw(t, "ends with context"),
		Fails:           rapid.Bool().Draw(t, "fails"),
		CatchUp:         rapid.Bool().Draw(t, "catch up"),
	}
}

// world is the system on which a random history acts.
type world struct {
	*fixture
	atLeastOnce bool
	behaviours  []behaviour
	managers    []*leasing.Manager
	stops       []context.CancelCauseFunc
	runs        sync.WaitGroup

	mu         sync.Mutex
	broken     map[string]bool // immediately, so the next run may overlap: see abstractions.BreakRequest
	running    map[string]Tick
	starts     map[time.Time]int
	done       map[time.Time]bool
	token      int64
	violations []string
}

func (w *world) violation(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// job returns a job that checks the promises when it starts: only a start can break a promise.
func (w *world) job(h behaviour) Job {
	return func(ctx context.Context, tick Tick) error {
		w.mu.Lock()
		if w.starts[tick.At]++; w.starts[tick.At] > 1 && !w.atLeastOnce {
			w.violations = append(w.violations, fmt.Sprintf("%v was started %d times", tick.At, w.starts[tick.At]))
		}
		if tick.Token() <= w.token {
			w.violations = append(w.violations, fmt.Sprintf("token %d after %d", tick.Token(), w.token))
		}
		w.token = tick.Token()
		for id, other := range w.running {
			if !w.broken[id] && other.Lease.Err() == nil {
				w.violations = append(w.violations, fmt.Sprintf("%v is started while %v runs", tick.At, other.At))
			}
		}
		w.running[tick.Lease.ID()] = tick
		w.mu.Unlock()
		err := h.work(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.running, tick.Lease.ID())
		if err == nil || ctx.Err() == nil {
			w.done[tick.At] = true
		}
		return err
	}
}

func (h behaviour) work(ctx context.Context) error {
	var ended <-chan struct{}
	if h.EndsWithContext {
		ended = ctx.Done()
	}
	select {
	case <-ended:
		return ctx.Err()
	case <-time.After(h.Duration):
	}
	if h.Fails {
		return errBoom
	}
	return nil
}

func (w *world) start(i int) {
	h, m := w.behaviours[i], w.managers[i]
	ctx, stop := context.WithCancelCause(context.Background())
	w.stops[i] = stop
	w.runs.Go(func() {
		if err := Run(ctx, m, Options{
			Name: name, Every: time.Hour, AtLeastOnce: w.atLeastOnce, CatchUp: h.CatchUp,
			Now:     func() time.Time { return time.Now().Add(h.Skew) },
			OnError: func(time.Time, error) {},
		}, w.job(h)); !errors.Is(err, errStop) {
			w.violation("Run has ended: %v", err)
		}
	})
}

func (w *world) do(s step) {
	time.Sleep(s.After)
	failure := errors.New("connection refused")
	switch s.What {
	case "fail":
		w.provider.Use(leasingtest.Fail(s.Op, s.Times, failure))
	case "lose reply":
		w.provider.Use(leasingtest.LoseReply(s.Op, s.Times, failure))
	case "hang":
		w.provider.Use(leasingtest.Hang(s.Op, s.Times))
	case "delay":
		w.provider.Use(leasingtest.Delay(s.Op, s.Times, s.For))
	case "delay reply":
		w.provider.Use(leasingtest.DelayReply(s.Op, s.Times, s.For))
	case "heal":
		w.provider.Clear()
	case "break":
		w.mu.Lock()
		for id := range w.running {
			w.broken[id] = true
		}
		w.mu.Unlock()
		_, _ = w.provider.Break(context.Background(), abstractions.BreakRequest{Name: name, Immediate: true})
	case "restart":
		w.stops[s.Process](errStop)
		w.start(s.Process)
	}
}

// after checks that each tick is run once all faults have ended, and then ends everything.
func (w *world) after() {
	w.provider.Clear()
	time.Sleep(time.Hour) // for runs under way
	first := time.Now().Add(time.Hour).Truncate(time.Hour)
	time.Sleep(time.Until(first.Add(3*time.Hour + 40*time.Minute)))
	for i := range 4 {
		tick := first.Add(time.Duration(i) * time.Hour).UTC()
		w.mu.Lock()
		starts, done := w.starts[tick], w.done[tick]
		w.mu.Unlock()
		if starts != 1 || !done {
			w.violation("%v was started %d times, done: %v", tick, starts, done)
		}
	}
	for _, stop := range w.stops {
		stop(errStop)
	}
	w.runs.Wait()
	for _, m := range w.managers {
		if err := m.Close(context.Background()); err != nil {
			w.violation("%v", err)
		}
	}
	synctest.Wait()
	if record := w.record(name); record.Held {
		w.violation("still held: %+v", record)
	}
	time.Sleep(time.Hour) // for requests that ignored their context
}

// The backend fails, hangs, is slow and loses replies; processes come and go; clocks disagree; jobs
// are slow, fail, and ignore their context. Even so, no tick is started twice (except with
// AtLeastOnce), no two runs hold the lease at the same time, tokens rise, and after all faults have
// ended each tick is run once.
func TestNoTickTwiceAndNoneForgottenInEveryHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{
			atLeastOnce: rapid.Bool().Draw(rt, "at least once"),
			behaviours:  rapid.SliceOfN(rapid.Custom(drawBehaviour), 3, 3).Draw(rt, "habits"),
			broken:      map[string]bool{}, running: map[string]Tick{}, starts: map[time.Time]int{}, done: map[time.Time]bool{},
			stops: make([]context.CancelCauseFunc, 3),
		}
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 30).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			w.fixture = newFixture(t)
			for i := range w.behaviours {
				m, err := leasing.NewManager(w.provider, leasing.Options{Owner: fmt.Sprint(i), TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				w.managers = append(w.managers, m)
				w.start(i)
			}
			for _, s := range steps {
				w.do(s)
			}
			w.after()
		})
		for _, violation := range w.violations {
			rt.Errorf("%s", violation)
		}
	})
}
