package run

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// fakeLease is a lease with scripted answers.
type fakeLease struct {
	abstractions.Lease
	err  error
	done chan struct{}
	ctx  context.Context // context.Background() if nil
}

func (h *fakeLease) Context() context.Context {
	return endingContext{cmp.Or(h.ctx, context.Background()), h.done}
}

func (*fakeLease) Name() string { return "n" }

func (*fakeLease) ID() string { return "mine" }

func (*fakeLease) Token() int64 { return 7 }

func (*fakeLease) Remaining() time.Duration { return time.Second }

func (h *fakeLease) Err() error { return h.err }

func (*fakeLease) Renew(context.Context) error { return nil }

func (*fakeLease) Release(context.Context) error { return nil }

// endingContext is a context that ends when a channel is closed.
type endingContext struct {
	context.Context
	done chan struct{}
}

func (u endingContext) Done() <-chan struct{} { return u.done }

func (u endingContext) Err() error {
	select {
	case <-u.done:
		return context.Canceled
	default:
		return u.Context.Err()
	}
}

// fakeResource is a resource with one answer.
type fakeResource struct {
	accepted bool
	err      error
	during   func()
}

func (a *fakeResource) write(_ context.Context, w *history.Write) error {
	if a.during != nil {
		a.during()
	}
	w.Accepted = a.accepted
	return a.err
}

func holder(resource resource) (*worker, *holdRecorder, *history.Recording) {
	b, c := new(history.Recording), &clock{start: time.Now()}
	w := &worker{
		client: &client{recorder: &recorder{clock: c, journal: b}}, index: 3, options: Options{TTL: time.Second, Patience: 2 * time.Second},
		resource: resource, random: rand.New(rand.NewPCG(1, 1)),
	}
	return w, &holdRecorder{clock: c, journal: b}, b
}

// A write is trusted only if the lease was valid both before and after the write.
func TestWriteIsTrustedBeforeAndAfter(t *testing.T) {
	gone := errors.New("gone")
	for name, c := range map[string]struct {
		before, after error
		want          bool
	}{
		"good":         {want: true},
		"lost before":  {before: gone, after: gone},
		"lost since":   {after: gone},
		"only at last": {before: gone},
	} {
		l := &fakeLease{err: c.before}
		a := &fakeResource{accepted: true, during: func() { l.err = c.after }}
		w, _, b := holder(a.write)
		w.write(leasing.LeaseOf(l))
		writes := b.Collect().Writes
		require.Len(t, writes, 1, name)
		require.Equal(t, c.want, writes[0].Trusted, name)
		require.True(t, writes[0].Accepted)
		require.EqualValues(t, 7, writes[0].Token)
		require.LessOrEqual(t, writes[0].Call, writes[0].Return)
	}
}

func TestWriteThatFailedIsNotRecorded(t *testing.T) {
	a := &fakeResource{err: errors.New("the resource is down")}
	w, _, b := holder(a.write)
	w.write(leasing.LeaseOf(&fakeLease{}))
	require.Empty(t, b.Collect().Writes)
}

// If a holder does not notice the loss of its lease, the hold has no Noticed time, and the check of losses finds that
// hold.
func TestHolderNoticesItsLossByItsLease(t *testing.T) {
	for _, closed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l, a := &fakeLease{err: leasing.ErrLost, done: make(chan struct{})}, &fakeResource{}
			w, h, b := holder(a.write)
			h.begin(leasing.LeaseOf(l))
			if closed {
				time.AfterFunc(time.Second, func() { close(l.done) })
			}
			w.afterLoss(t.Context(), leasing.LeaseOf(l), h)
			one := b.Collect().Holds[0]
			if closed {
				require.Equal(t, time.Second, one.Noticed)
				require.Equal(t, history.EndingLost, one.Ending)
				require.Len(t, b.Collect().Writes, 1, "it writes once more")
			} else {
				require.Zero(t, one.Noticed)
				require.Empty(t, one.Ending)
				require.GreaterOrEqual(t, w.clock.now(), w.options.Patience, "it has waited")
				close(l.done)
			}
		})
	}
}

// The loss is recorded at its time even if the worker is waiting for an answer from the backend.
func TestHolderNoticesItsLossDuringARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, lose := context.WithCancel(t.Context())
		l, a := &fakeLease{err: leasing.ErrLost, done: make(chan struct{}), ctx: ctx}, &fakeResource{}
		w, h, b := holder(a.write)
		h.begin(leasing.LeaseOf(l))
		<-time.After(time.Second)
		lose()
		close(l.done)
		<-time.After(time.Minute)
		w.afterLoss(t.Context(), leasing.LeaseOf(l), h)
		require.Equal(t, time.Second, b.Collect().Holds[0].Noticed)
	})
}

// A hold ends at the earliest end that is known, whatever the order in which the manager's events and the holder's
// actions are recorded.
func TestHoldIsTheStrictestOfWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h, b := holder(nil)
		event := func(kind leasing.EventKind, remaining time.Duration) leasing.Event {
			return leasing.Event{Kind: kind, Time: time.Now(), Remaining: remaining}
		}
		h.observe(event(leasing.EventAcquired, time.Second))
		require.Empty(t, b.Collect().Holds, "its holder does not know of it yet")
		time.Sleep(100 * time.Millisecond)
		h.begin(leasing.LeaseOf(new(fakeLease)))
		one := func() history.Hold { return b.Collect().Holds[0] }
		require.Equal(t, history.Hold{Claim: leasing.FingerprintOf("mine").String(), Token: 7, From: 100 * time.Millisecond}, one())

		lost := event(leasing.EventLost, 0)
		time.Sleep(100 * time.Millisecond)
		h.end(history.EndingGivenUp)
		require.Equal(t, 200*time.Millisecond, one().End)
		h.observe(lost)
		require.Equal(t, 100*time.Millisecond, one().End, "it was lost before it was given up")
		time.Sleep(100 * time.Millisecond)
		h.end(history.EndingGivenUp)
		require.Equal(t, 100*time.Millisecond, one().End)
		h.observe(event(leasing.EventLost, 0))
		require.Equal(t, 100*time.Millisecond, one().End)
	})
}

// The check allows 20 leases, which may be in use or about to end. A garbage collection must
// free all others, because the worker itself has only weak pointers to its leases.
func TestLeasesThatAManagerKeepsAreFound(t *testing.T) {
	for kept, bad := range map[int]bool{0: false, 20: false, 21: true} {
		w, _, b := holder(nil)
		w.index = 0
		var leases []*holdRecorder
		for i := range 40 {
			h := &holdRecorder{clock: w.clock, journal: w.journal}
			w.past = append(w.past, weak.Make(h))
			if i < kept {
				leases = append(leases, h)
			}
		}
		w.checkMemory()
		runtime.KeepAlive(leases)
		found := b.Collect().Found
		require.Equal(t, bad, len(found) == 1 && found[0].Check == history.CheckGrowth, "%d: %v", kept, found)
	}
}

// A worker keeps weak pointers to its past leases, for the check of memory.
func TestWorkerRemembersItsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := new(history.Recording), &clock{start: time.Now()}
		o, err := Options{Open: Share(memlease.New(memlease.Options{})), Seed: 1}.WithDefaults()
		require.NoError(t, err)
		o = o.fit(leasing.Capabilities{})
		client, err := openClient(t.Context(), o, 0, c, b)
		require.NoError(t, err)
		w := newWorker(0, o, []string{"n"}, client, newResource(nil))
		manager, err := leasing.NewManager(client.recorder, leasing.Options{})
		require.NoError(t, err)
		w.attempt(t.Context(), manager, "n", usage{hold: time.Second, ttl: o.TTL})
		require.Len(t, w.past, 1)
		require.NoError(t, manager.Close(t.Context()))
		require.NoError(t, client.Close())
	})
}

// The leases of a crashed worker must run out, so a worker with an infinite lease does not crash.
func TestWorkerWithALeaseWithoutAnEndDoesNotCrash(t *testing.T) {
	for index, endless := range map[int]bool{0: false, 3: true} {
		w, _, _ := holder(nil)
		w.index, w.options.infinite, w.options.Intensity = index, true, 1
		had, crashes := false, 0
		for range 10_000 {
			u := w.usage()
			if had = had || u.ttl == leasing.Infinite; had {
				require.False(t, u.crash)
			}
			if u.crash {
				crashes++
			}
		}
		require.Equal(t, endless, had)
		if !endless {
			require.Positive(t, crashes)
		}
	}
}

// The faults differ between workers and between seeds. The seed is the plan's, or else the run's.
func TestSeedOfEachWorker(t *testing.T) {
	seeds := map[uint64]int{}
	for worker := range 4 {
		for _, o := range []Options{{Seed: 9, Plan: chaos.Plan{Seed: 5}}, {Seed: 8, Plan: chaos.Plan{Seed: 5}}, {Seed: 5}, {Seed: 6}} {
			o.Open = Share(memlease.New(memlease.Options{}))
			c, err := openClient(t.Context(), o, worker, new(clock), new(history.Recording))
			require.NoError(t, err)
			seeds[c.faults.Plan().Seed]++
		}
	}
	require.Len(t, seeds, 8)
	require.NotContains(t, seeds, uint64(0))
}
