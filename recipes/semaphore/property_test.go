package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// step is one thing that happens in a random history.
type step struct {
	What    string
	Process int
	For     time.Duration
	Times   int
	Op      leasingtest.Op
}

func drawStep(t *rapid.T) step {
	return step{
		What:    rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "do", "do", "try", "release", "release", "break", "fail", "lose reply", "hang", "delay", "delay reply", "heal", "close"}).Draw(t, "what"),
		Process: rapid.IntRange(0, 2).Draw(t, "process"),
		For:     time.Duration(rapid.Int64Range(0, int64(3*time.Minute)).Draw(t, "for")),
		Times:   rapid.SampledFrom([]int{1, 2, 3, 100}).Draw(t, "times"),
		Op:      rapid.SampledFrom([]leasingtest.Op{leasingtest.Renew, leasingtest.Acquire, leasingtest.Release}).Draw(t, "op"),
	}
}

// world is the system on which a random history acts.
type world struct {
	backend   *leasingtest.Provider
	processes []*Semaphore
	most      int // the largest Options.Permits of the processes

	mu         sync.Mutex
	permits    []*Permit
	tokens     map[int]int64   // the latest, by slot
	broken     map[string]bool // immediately, so the next holder may overlap: see abstractions.BreakRequest
	violations []string
	calls      sync.WaitGroup
}

func (w *world) violation(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// onGrant checks the promise at the moments that can break it: when the backend grants a slot, the
// trusted permits, with the new one, must not exceed the limit.
func (w *world) onGrant(_ context.Context, call leasingtest.Call, apply func() error) error {
	err := apply()
	if call.Op != leasingtest.Acquire || err != nil {
		return err
	}
	w.mu.Lock()
	permits := slices.Clone(w.permits)
	w.mu.Unlock()
	trusted := 1
	for _, p := range permits {
		if p.ID() != call.ID && !w.isBroken(p) && p.Remaining() > 0 {
			trusted++
		}
	}
	if trusted > w.most {
		w.violation("%d of %d permits are trusted", trusted, w.most)
	}
	return nil
}

func (w *world) hold(p *Permit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.permits = append(w.permits, p)
	if p.Token() <= w.tokens[p.Slot()] {
		w.violations = append(w.violations, fmt.Sprintf("slot %d: token %d after %d", p.Slot(), p.Token(), w.tokens[p.Slot()]))
	}
	w.tokens[p.Slot()] = p.Token()
}

func (w *world) isBroken(p *Permit) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken[p.ID()]
}

func (w *world) any(n int) *Permit {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.permits) == 0 {
		return nil
	}
	return w.permits[n*len(w.permits)/101]
}

func (w *world) do(s step) {
	process := w.processes[s.Process]
	ctx, cancel := context.WithTimeout(context.Background(), s.For)
	switch s.What {
	case "acquire", "try":
		w.calls.Go(func() {
			defer cancel()
			acquire := process.Acquire
			if s.What == "try" {
				acquire = process.TryAcquire
			}
			if p, err := acquire(ctx); err == nil {
				w.hold(p)
			}
		})
		return
	case "do":
		w.calls.Go(func() {
			defer cancel()
			_ = process.Do(ctx, func(ctx context.Context, p *Permit) error {
				w.hold(p)
				select {
				case <-ctx.Done():
				case <-time.After(s.For / 4):
				}
				return context.Cause(ctx)
			})
		})
		return
	case "release":
		if p := w.any(s.Times); p != nil {
			w.calls.Go(func() { defer cancel(); _ = p.Release(ctx) })
			return
		}
	case "break":
		if p := w.any(s.Times); p != nil {
			w.mu.Lock()
			w.broken[p.ID()] = true
			w.mu.Unlock()
			_, _ = process.manager.Break(ctx, p.Name(), leasing.BreakOptions{IfToken: p.Token(), Immediate: true})
		}
	case "fail":
		w.backend.Use(leasingtest.Fail(s.Op, s.Times, errors.New("connection refused")))
	case "lose reply":
		w.backend.Use(leasingtest.LoseReply(s.Op, s.Times, errors.New("connection reset")))
	case "hang":
		w.backend.Use(leasingtest.Hang(s.Op, s.Times))
	case "delay":
		w.backend.Use(leasingtest.Delay(s.Op, s.Times, min(s.For, 2*ttl)))
	case "delay reply":
		w.backend.Use(leasingtest.DelayReply(s.Op, s.Times, min(s.For, 2*ttl)))
	case "heal":
		w.backend.Clear()
		w.backend.Use(w.onGrant)
	case "close":
		if s.Process == 0 { // the others live to the end
			w.calls.Go(func() { defer cancel(); _ = process.manager.Close(ctx) })
			return
		}
	}
	cancel()
}

// end stops everything and checks that nothing is left.
func (w *world) end() {
	time.Sleep(4 * time.Minute) // longer than any wait
	w.backend.Clear()
	w.backend.Use(w.onGrant)
	w.calls.Wait()
	for _, p := range w.permits {
		_ = p.Release(context.Background())
	}
	time.Sleep(3 * ttl) // until abandoned leases have expired
	synctest.Wait()
	for i, s := range w.processes {
		s.mu.Lock()
		if len(s.queue) != 0 || s.search != nil || s.held != 0 || len(s.free) != s.options.Permits {
			w.violations = append(w.violations, fmt.Sprintf("process %d: %d wait, %d slots at hand", i, len(s.queue), len(s.free)))
		}
		s.mu.Unlock()
	}
	for _, p := range w.permits {
		if p.Err() == nil || p.Context().Err() == nil {
			w.violation("slot %d, token %d does not know that it has ended", p.Slot(), p.Token())
		}
	}
	w.comeBack()
	for _, s := range w.processes {
		_ = s.manager.Close(context.Background())
	}
	time.Sleep(time.Hour) // for requests that ignored their context
}

// comeBack checks that all permits, and no more, are free.
func (w *world) comeBack() {
	last := w.processes[len(w.processes)-1]
	var permits []*Permit
	for range last.options.Permits {
		p, err := last.TryAcquire(context.Background())
		if err != nil {
			w.violation("permit %d is gone: %v", len(permits), err)
			break
		}
		permits = append(permits, p)
	}
	if _, err := last.TryAcquire(context.Background()); !errors.Is(err, leasing.ErrHeld) {
		w.violation("one permit too many: %v", err)
	}
	for _, p := range permits {
		_ = p.Release(context.Background())
	}
}

// Processes with different values of Options.Permits acquire, lose and release permits over a
// backend that fails, hangs, is slow and loses replies. Even so, the trusted permits never exceed
// the largest of these values, the tokens of a slot rise, and all permits come back.
func TestNeverTooManyAndAllComeBackInEveryHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		numbers := rapid.SliceOfN(rapid.IntRange(1, 6), 3, 3).Draw(rt, "permits")
		watch := rapid.IntRange(1, 6).Draw(rt, "watch")
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 40).Draw(rt, "steps")
		pauses := rapid.SliceOfN(rapid.Int64Range(0, int64(2*ttl)), len(steps), len(steps)).Draw(rt, "pauses")
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			w := &world{backend: leasingtest.NewProvider(), tokens: map[int]int64{}, broken: map[string]bool{}, most: slices.Max(numbers)}
			w.backend.Use(w.onGrant)
			for i, permits := range numbers {
				m, err := leasing.NewManager(w.backend, leasing.Options{Owner: fmt.Sprint(i), TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				s, err := New(m, Options{Name: name, Permits: permits})
				if err != nil {
					t.Fatal(err)
				}
				s.watchedSlots = watch
				w.processes = append(w.processes, s)
			}
			for i, s := range steps {
				w.do(s)
				time.Sleep(time.Duration(pauses[i]))
			}
			w.end()
			wrong = w.violations
		})
		for _, violation := range wrong {
			rt.Errorf("%s", violation)
		}
	})
}
