package bloblease

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// expires returns the grant of a claim that has run out.
func (b *bed) expires(name, id string) abstractions.Grant {
	b.t.Helper()
	req := acquireRequest(name, id)
	req.TTL = minTTL
	g, err := b.Acquire(b.t.Context(), req)
	require.NoError(b.t, err)
	require.Eventually(b.t, func() bool { return !b.view(name).isLocked() }, time.Minute, 100*time.Millisecond)
	return g
}

// T20: a lease is broken after it has run out. No later renewal of its holder revives
// the lease, nor does an earlier renewal that arrives late.
func TestTrap_T20_BlobBreakOfWhatRanOut(t *testing.T) {
	t.Parallel()
	for _, immediate := range []bool{false, true} {
		for _, named := range []bool{false, true} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				sent := b.recorder.records()
				g := b.expires("n", "a")
				b.recorder.reset()
				req := abstractions.BreakRequest{Name: "n", Immediate: immediate}
				if named {
					req.IfToken = g.Token
				}
				item, err := b.driver.store.Get(t.Context(), b.blobName("n"))
				require.NoError(t, err)
				late := item.State.(*blobState)
				r, err := b.Break(t.Context(), req)
				require.NoError(t, err)
				require.Equal(t, abstractions.BreakResult{Token: g.Token}, r)
				requireLost(t, b.renew(g), abstractions.LostExpired)
				_, err = b.driver.store.lease(b.blobName("n"), "a").RenewLease(t.Context(), &lease.BlobRenewOptions{ModifiedAccessConditions: ifMatch(late.etag)})
				require.Error(t, err, "a late one")
				for _, r := range sent() {
					b.recorder.resend(t, r)
				}
				require.False(t, b.inspect("n").Held)
				require.Greater(t, b.acquire("n", "b").Token, g.Token)
			})
		}
	}
}

// A break that is interrupted half way has the same effect once the lease has expired.
func TestTrap_T20_BlobBreakOfWhatRanOutHalfBroken(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	req := acquireRequest("n", "a")
	req.TTL = minTTL
	g, err := b.Acquire(t.Context(), req)
	require.NoError(t, err)
	b.breakHalfWay("n", 0)
	require.Eventually(t, func() bool { return !b.view("n").isLocked() }, time.Minute, 100*time.Millisecond)
	_, err = b.Break(t.Context(), abstractions.BreakRequest{Name: "n", IfToken: g.Token})
	require.NoError(t, err)
	requireLost(t, b.renew(g), abstractions.LostBroken)
}

// A claim that is recorded but has no lease yet already counts: a Break ends it, and
// its acquire reports the end.
func TestBlobBreakBesideAnAcquire(t *testing.T) {
	t.Parallel()
	for _, immediate := range []bool{false, true} {
		for _, named := range []bool{false, true} {
			b := newBed(t)
			operator, _ := b.process()
			b.recorder.runBefore(verbAcquire, func() {
				req := abstractions.BreakRequest{Name: "n", Immediate: immediate}
				if named {
					req.IfToken = b.inspect("n").Token
				}
				r, err := operator.Break(t.Context(), req)
				require.NoError(t, err)
				require.True(t, r.WasHeld)
				require.Zero(t, r.Remaining)
			})
			_, err := b.try("n", "a")
			b.recorder.reset()
			require.ErrorIs(t, err, abstractions.ErrReleased)
			b.acquire("n", "b")
		}
	}
}

// T63: one Break of a name, whichever claim holds it, ends only one lease. The holder releases the
// lease during the Break, and the next holder's lease is not broken.
func TestTrap_T63_BlobOneBreakEndsOneLease(t *testing.T) {
	t.Parallel()
	for _, immediate := range []bool{false, true} {
		for _, step := range []verb{verbWrite, verbBreak, verbRelease} {
			if (step == verbBreak) == immediate && step != verbWrite {
				continue // this Break does not have this step
			}
			b := newBed(t)
			first := b.acquire("n", "a")
			operator, w := b.process()
			var next abstractions.Grant
			w.runBefore(step, func() {
				require.NoError(t, b.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}))
				next = b.acquire("n", "b")
			})
			r, err := operator.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: immediate, Grace: time.Second})
			require.NoError(t, err)
			require.NoError(t, b.renew(next), "before %s", step)
			require.False(t, b.inspect("n").Breaking)
			require.Equal(t, abstractions.BreakResult{WasHeld: step != verbWrite, Token: first.Token}, r, "before %s", step)
		}
	}
}

// The holder releases its lease between the two requests of a Break, and no other claim follows.
func TestBlobBreakOfWhatIsReleasedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.acquire("n", "a")
	operator, w := b.process()
	w.runBefore(verbBreak, func() { b.release("n", "a") })
	r, err := operator.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, abstractions.BreakResult{WasHeld: true, Token: g.Token}, r)
	b.acquire("n", "b")
}

// T20: a lease is broken in the portal or with az. No renewal of its holder revives the
// lease, for any TTL and at any time.
func TestTrap_T20_BlobBrokenOutsideIsNotRevived(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{maxTTL, abstractions.Infinite} {
		for _, period := range []int32{0, 60} {
			for _, step := range []verb{"", verbRenew, verbRead} {
				b := newBed(t)
				req := acquireRequest("n", abstractions.NewID())
				req.TTL = ttl
				g, err := b.Acquire(t.Context(), req)
				require.NoError(t, err)
				stateless := renewRequest(g)
				if step == "" {
					b.breakInPortal("n", period)
				} else {
					b.recorder.runBefore(step, func() { b.breakInPortal("n", period) })
				}
				if step == verbRead {
					stateless.State = nil
				}
				_, err = b.Renew(t.Context(), stateless)
				b.recorder.reset()
				requireLost(t, err, abstractions.LostBroken)
				require.True(t, b.view("n").isBroken())
			}
		}
	}
}

// The lease is broken between the read of a renewal and the renewal's own request.
func TestTrap_T20_BlobBrokenOutsideBehindTheLook(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.takeInfinite("n", "a")
	b.release("n", "never") // the record changes, the claim does not
	looked := false
	b.recorder.set(nil, func(v verb, answer *http.Response) (*http.Response, error) {
		if v == verbRead && !looked {
			looked = true
			b.breakInPortal("n", 0)
		}
		return answer, nil
	})
	err := b.renew(g)
	b.recorder.reset()
	require.True(t, looked)
	requireLost(t, err, abstractions.LostBroken)
}

// breakHalfWay makes a Break whose second request never arrives.
func (b *bed) breakHalfWay(name string, grace time.Duration) {
	b.t.Helper()
	operator, w := b.process()
	w.set(func(v verb, _ *http.Request) (*http.Response, error) {
		if v == verbBreak {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, nil
	}, nil)
	_, err := operator.Break(b.t.Context(), abstractions.BreakRequest{Name: name, Grace: grace})
	require.True(b.t, isUnknown(err), "%v", err)
	require.Equal(b.t, lease.StateTypeLeased, b.view(name).lease)
}

func (b *bed) takeInfinite(name, id string) abstractions.Grant {
	b.t.Helper()
	req := acquireRequest(name, id)
	req.TTL = abstractions.Infinite
	g, err := b.Acquire(b.t.Context(), req)
	require.NoError(b.t, err)
	return g
}

// T16: an operator's process dies between the two requests of a Break. The lease is infinite and does not run out, so the next
// call of any process finishes the Break, with its grace.
func TestTrap_T16_BlobHalfABreakIsFinishedByWhoComesNext(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"renewal", "renewal without state", "acquire"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			g := b.takeInfinite("n", "a")
			b.breakHalfWay("n", 2*time.Second)
			switch by {
			case "acquire":
				_, err := b.try("n", "b")
				require.ErrorIs(t, err, abstractions.ErrHeld)
			case "renewal without state":
				req := renewRequest(g)
				req.State = nil
				_, err := b.Renew(t.Context(), req)
				requireLost(t, err, abstractions.LostBroken)
			case "renewal":
				requireLost(t, b.renew(g), abstractions.LostBroken)
			}
			require.Equal(t, lease.StateTypeBreaking, b.view("n").lease)
			require.True(t, b.inspect("n").Breaking)
			requireLost(t, b.renew(g), abstractions.LostBroken)
			var next abstractions.Grant
			began := b.view("n").now
			require.Eventually(t, func() bool {
				var err error
				next, err = b.try("n", "b")
				return err == nil
			}, 30*time.Second, 100*time.Millisecond)
			require.Greater(t, next.Token, g.Token)
			require.Less(t, b.view("n").now.Sub(began), 10*time.Second, "by the grace, not by a default")
			_, err := b.try("n", "a")
			require.Error(t, err)
		})
	}
}

// The grace is the operator's choice: the call that finishes the break keeps the grace,
// and a finite lease keeps the rest of its time.
func TestTrap_T16_BlobHalfABreakKeepsItsGrace(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.takeInfinite("infinite", "a")
	b.breakHalfWay("infinite", 30*time.Second)
	_, err := b.try("infinite", "b")
	require.ErrorIs(t, err, abstractions.ErrHeld)
	r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "infinite", Grace: time.Minute})
	require.NoError(t, err)
	require.Greater(t, r.Remaining, 10*time.Second)
	require.LessOrEqual(t, r.Remaining, 30*time.Second)

	b.acquire("finite", "a")
	b.breakHalfWay("finite", 0)
	_, err = b.try("finite", "b")
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.Equal(t, lease.StateTypeBreaking, b.view("finite").lease)
	r, err = b.Break(t.Context(), abstractions.BreakRequest{Name: "finite"})
	require.NoError(t, err)
	require.Greater(t, r.Remaining, 30*time.Second)
}

// If the renewal that should finish the break fails, its outcome is unknown, and the holder's next renewal finishes the break.
func TestTrap_T16_BlobHalfABreakThatIsNotFinishedYet(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.takeInfinite("n", "a")
	b.breakHalfWay("n", time.Second)
	b.recorder.answerWith(verbBreak, http.StatusInternalServerError)
	err := b.renew(g)
	require.True(t, isUnknown(err), "%v", err)
	require.NotErrorIs(t, err, abstractions.ErrLost)
	b.recorder.reset()
	requireLost(t, b.renew(g), abstractions.LostBroken)
	require.NotEqual(t, lease.StateTypeLeased, b.view("n").lease)
}

// With a manager, the renewal loop reports the loss, and the name becomes free.
func TestTrap_T16_BlobHalfABreakUnderAManager(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	m := managerOf(t, b.Provider, leasing.Options{})
	held, err := m.With(abstractions.AcquireOptions{TTL: abstractions.Infinite, RenewCadence: 500 * time.Millisecond}).TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return b.view("n").infinite && held.Renewals() > 1 }, 30*time.Second, 100*time.Millisecond)
	b.breakHalfWay("n", time.Second)
	select {
	case <-held.Done():
	case <-time.After(30 * time.Second):
		require.Fail(t, "no loss")
	}
	requireLost(t, held.Err(), abstractions.LostBroken)
	require.Eventually(t, func() bool {
		_, err := b.try("n", "b")
		return err == nil
	}, 30*time.Second, 100*time.Millisecond)
}

// A break arrives while an infinite lease becomes finite: the record is already finite, and the
// service's lease is still infinite. The break does not end the lease at once.
func TestTrap_T63_BlobBreakOfAnInfiniteLeaseThatIsAboutToEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.takeInfinite("n", "a")
	g.TTL = minTTL
	b.recorder.answerWith(verbAcquire, http.StatusInternalServerError)
	require.True(t, isUnknown(b.renew(g)))
	b.recorder.reset()
	require.True(t, b.view("n").infinite)
	r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	require.Greater(t, r.Remaining, 30*time.Second)
}
