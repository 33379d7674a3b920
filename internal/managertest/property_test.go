package managertest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// step is one action in a random history.
type step struct {
	What    string
	Manual  bool // no auto-renewal
	Manager int
	Name    string
	For     time.Duration
	Times   int
	Op      leasingtest.Op
}

var ttls = []time.Duration{300 * time.Millisecond, 2 * time.Second, 30 * time.Second, 10 * time.Minute}

func drawStep(t *rapid.T) step {
	return step{
		What:    rapid.SampledFrom([]string{"acquire", "acquire", "acquire all", "try", "release", "renew", "fail", "lose reply", "hang", "delay", "delay reply", "suspend", "break", "close", "wait"}).Draw(t, "what"),
		Manual:  rapid.Bool().Draw(t, "manual"),
		Manager: rapid.IntRange(0, managers-1).Draw(t, "manager"),
		Name:    rapid.SampledFrom(names).Draw(t, "name"),
		For:     time.Duration(rapid.Int64Range(0, int64(3*time.Minute)).Draw(t, "for")),
		Times:   rapid.SampledFrom([]int{1, 2, 3, 100}).Draw(t, "times"),
		Op:      rapid.SampledFrom([]leasingtest.Op{leasingtest.Renew, leasingtest.Acquire, leasingtest.Release}).Draw(t, "op"),
	}
}

const managers = 3

// names are acquired one at a time or together. Leases that were acquired together are renewed in batches.
var names = []string{"one", "two", "three"}

// world is the system that a random history runs on. It has machines with a manager each, one backend and a few names.
type world struct {
	ttl      time.Duration
	backend  *leasingtest.Provider
	machines []*machine
	managers []*leasing.Manager
	journals []*journal

	mu     sync.Mutex
	leases []*leasing.Lease
	tokens map[string]int64
	broken map[string]bool // IDs of leases broken immediately, which are exempt from exclusion: see the package documentation
	wrong  []string
	calls  sync.WaitGroup
}

func (w *world) violation(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// onGrant checks mutual exclusion at the only moments that can violate it: when the backend grants the name to a claim, no other
// manager may trust a lease of the name.
func (w *world) onGrant(_ context.Context, call leasingtest.Call, apply func() error) error {
	err := apply()
	if call.Op != leasingtest.Acquire || err != nil {
		return err
	}
	w.mu.Lock()
	leases := slices.DeleteFunc(slices.Clone(w.leases), func(l *leasing.Lease) bool { return w.broken[l.ID()] })
	w.mu.Unlock()
	for _, l := range leases {
		if l.Name() == call.Name && l.ID() != call.ID && l.Remaining() > 0 {
			w.violation("granted to %s while token %d is trusted for another %v", call.ID, l.Token(), l.Remaining())
		}
	}
	return nil
}

func (w *world) do(s step) {
	m := w.managers[s.Manager]
	ctx, cancel := context.WithTimeout(context.Background(), s.For)
	switch s.What {
	case "acquire", "try":
		w.calls.Go(func() {
			defer cancel()
			w.acquire(ctx, s, s.Name)
		})
		return
	case "acquire all":
		w.calls.Go(func() {
			defer cancel()
			var all sync.WaitGroup
			for _, name := range names {
				all.Go(func() { w.acquire(ctx, s, name) })
			}
			all.Wait()
		})
		return
	case "release", "renew":
		if l := w.any(s.Times); l != nil {
			w.calls.Go(func() {
				defer cancel()
				if s.What == "release" {
					_ = l.Release(ctx)
				} else {
					_ = l.Renew(ctx)
				}
			})
			return
		}
	case "fail":
		w.backend.Use(leasingtest.Fail(s.Op, s.Times, errNetwork))
	case "lose reply":
		w.backend.Use(leasingtest.LoseReply(s.Op, s.Times, errNetwork))
	case "hang":
		w.backend.Use(leasingtest.Hang(s.Op, s.Times))
	case "delay":
		w.backend.Use(leasingtest.Delay(s.Op, s.Times, min(s.For, 2*w.ttl)))
	case "delay reply":
		w.backend.Use(leasingtest.DelayReply(s.Op, s.Times, min(s.For, 2*w.ttl)))
	case "suspend":
		w.machines[s.Manager].Suspend(s.For)
	case "break":
		if l := w.any(s.Times); l != nil {
			immediate := s.Times%2 == 0
			if immediate {
				w.mu.Lock()
				w.broken[l.ID()] = true
				w.mu.Unlock()
			}
			_, _ = m.Break(ctx, l.Name(), leasing.BreakOptions{IfToken: l.Token(), Immediate: immediate})
		}
	case "close":
		w.calls.Go(func() { defer cancel(); _ = m.Close(ctx) })
		return
	case "wait":
		time.Sleep(s.For)
	}
	cancel()
}

func (w *world) acquire(ctx context.Context, s step, name string) {
	m := w.managers[s.Manager].With(leasing.AcquireOptions{TTL: w.ttl, NoAutoRenew: s.Manual})
	acquire := m.Acquire
	if s.What == "try" {
		acquire = m.TryAcquire
	}
	l, err := acquire(ctx, name)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases = append(w.leases, l)
	if l.Token() <= w.tokens[name] {
		w.wrong = append(w.wrong, fmt.Sprintf("token %d of %s after %d", l.Token(), name, w.tokens[name]))
	}
	w.tokens[name] = l.Token()
}

func (w *world) any(n int) *leasing.Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.leases) == 0 {
		return nil
	}
	return w.leases[n%len(w.leases)]
}

// end releases all leases, closes the managers, and checks that nothing is left.
func (w *world) end() {
	time.Sleep(time.Minute)
	w.mu.Lock()
	leases := slices.Clone(w.leases)
	w.mu.Unlock()
	w.backend.Clear()
	for _, l := range leases {
		_ = l.Release(context.Background())
	}
	w.calls.Wait()
	w.mu.Lock()
	late := w.leases[len(leases):]
	w.mu.Unlock()
	for _, l := range late {
		_ = l.Release(context.Background())
	}
	for _, m := range w.managers {
		_ = m.Close(context.Background())
	}
	synctest.Wait()
	for _, l := range w.leases {
		if l.Err() == nil || l.Context().Err() == nil || l.Remaining() != 0 {
			w.violation("token %d does not know that it has ended", l.Token())
		}
	}
	for i, j := range w.journals {
		w.checkEvents(i, j.all())
	}
	for _, name := range names {
		record, err := w.backend.Inspect(context.Background(), abstractions.InspectRequest{Name: name})
		if left, _ := record.Remaining(); err != nil || left > w.ttl {
			w.violation("%s is still held for %v: %+v, %v", name, left, record, err)
		}
	}
	time.Sleep(time.Hour) // time for the requests that ignored their context
}

// checkEvents checks that each lease began once and ended once.
func (w *world) checkEvents(manager int, events []leasing.Event) {
	begun, over := map[leasing.Fingerprint]int{}, map[leasing.Fingerprint]int{}
	for _, e := range events {
		switch e.Kind {
		case leasing.EventAcquired:
			begun[e.Fingerprint]++
		case leasing.EventLost, leasing.EventReleased:
			over[e.Fingerprint]++
		case leasing.EventRenewed, leasing.EventRenewalFailed:
			if over[e.Fingerprint] > 0 {
				w.violation("manager %d: %s after the end", manager, e.Kind)
			}
		}
	}
	for claim, n := range begun {
		if n != 1 || over[claim] != 1 {
			w.violation("manager %d: a lease has begun %d times and ended %d times", manager, n, over[claim])
		}
	}
}

// The promises hold in every history of acquires, renewals, releases and breaks: one trusted lease of a name at a time, rising
// tokens, one end and one report of that end for each lease, and nothing left behind. The backend fails, hangs, is slow and loses
// replies, machines are suspended, and managers are closed.
func TestPromisesHoldInEveryHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{ttl: rapid.SampledFrom(ttls).Draw(rt, "ttl"), tokens: map[string]int64{}, broken: map[string]bool{}}
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 40).Draw(rt, "steps")
		pauses := rapid.SliceOfN(rapid.Int64Range(0, int64(w.ttl)), len(steps), len(steps)).Draw(rt, "pauses")
		synctest.Test(t, func(t *testing.T) {
			w.backend = leasingtest.NewProvider()
			w.backend.Use(w.onGrant)
			for range managers {
				machine := newMachine()
				m, err := newManagerOn(machine, w.backend, leasing.Options{})
				if err != nil {
					w.violation("%v", err)
					return
				}
				j := &journal{}
				m.Subscribe(j.observe)
				w.machines, w.managers, w.journals = append(w.machines, machine), append(w.managers, m), append(w.journals, j)
			}
			for i, s := range steps {
				w.do(s)
				time.Sleep(time.Duration(pauses[i]))
			}
			w.end()
		})
		for _, wrong := range w.wrong {
			rt.Errorf("%s", wrong)
		}
	})
}
