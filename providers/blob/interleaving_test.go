package bloblease

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T56: the clean-up of an acquire comes between two requests of the acquire.
func TestTrap_T56_BlobReleaseBetweenTheRequestsOfItsAcquire(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		for _, step := range []verb{verbCreate, verbWrite, verbAcquire} {
			b := newBed(t)
			if used {
				b.acquire("n", "x")
				b.release("n", "x")
			}
			cleaner, _ := b.process()
			b.recorder.runBefore(step, func() {
				require.NoError(t, cleaner.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}))
			})
			_, err := b.try("n", "a")
			b.recorder.reset()
			if used && step == verbCreate || !used && step == verbWrite {
				require.NoError(t, err, "there is no such step")
				continue
			}
			require.ErrorIs(t, err, abstractions.ErrReleased, "before %s", step)
			require.False(t, b.inspect("n").Held)
			b.acquire("n", "b")
		}
	}
}

// Requests of an ended claim that arrive late or a second time affect neither a free
// name nor the next holder's lease.
func TestTrap_T56_BlobLateRequestsDoNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	for _, end := range []func(g abstractions.Grant){
		func(g abstractions.Grant) { require.NoError(t, b.Release(ctx, releaseRequest(g))) },
		func(g abstractions.Grant) {
			_, err := b.Break(ctx, abstractions.BreakRequest{Name: g.Name, Immediate: true})
			require.NoError(t, err)
		},
		func(g abstractions.Grant) {
			_, err := b.Break(ctx, abstractions.BreakRequest{Name: g.Name})
			require.NoError(t, err)
			require.NoError(t, b.Release(ctx, releaseRequest(g)))
		},
	} {
		name := abstractions.NewID()
		b.acquire(name, "x")
		b.release(name, "x")
		sent := b.recorder.records()
		g := b.acquire(name, "a")
		for _, ttl := range []time.Duration{maxTTL, abstractions.Infinite, maxTTL} {
			g.TTL = ttl
			var err error
			g, err = b.Renew(ctx, renewRequest(g))
			require.NoError(t, err)
		}
		end(g)
		late := sent()

		free := b.view(name)
		for _, r := range late {
			b.recorder.resend(t, r)
			require.Equal(t, free, withTimesOf(b.view(name), free), "%s %s", verbOf(r), r.Header)
		}
		next := b.acquire(name, "b")
		held := b.view(name)
		for _, r := range late {
			b.recorder.resend(t, r)
			require.Equal(t, held, withTimesOf(b.view(name), held), "%s %s", verbOf(r), r.Header)
		}
		require.NoError(t, b.renew(next))
		require.Equal(t, abstractions.FingerprintOf("b"), b.inspect(name).Fingerprint)
	}
}

// A copy of an acquire may arrive after its claim has run out and before the blob is written. The copy leases the name for another
// TTL, although the claim no longer trusts the lease. The claim's release ends that lease, and the next holder's record refuses later
// copies.
func TestBlobCopyOfAnAcquireAfterItsTTL(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	sent := b.recorder.records()
	req := acquireRequest("n", "a")
	req.TTL = minTTL
	_, err := b.Acquire(t.Context(), req)
	require.NoError(t, err)
	late := sent()
	b.waitFor(minTTL)
	require.False(t, b.view("n").isLocked())
	for _, r := range late {
		b.recorder.resend(t, r)
	}
	require.True(t, b.view("n").isLocked())
	_, err = b.try("n", "b")
	require.ErrorIs(t, err, abstractions.ErrHeld)
	b.release("n", "a")
	b.acquire("n", "b")
	b.release("n", "b")
	for _, r := range late {
		b.recorder.resend(t, r)
	}
	require.False(t, b.view("n").isLocked())
}

func withTimesOf(v, as blobView) blobView {
	v.now = as.now
	return v
}

// records makes the recorder keep copies of all requests but reads, until the returned function is called. That function returns
// the copies.
func (w *recorder) records() func() []*http.Request {
	var all []*http.Request
	w.set(func(v verb, r *http.Request) (*http.Response, error) {
		if v != verbRead {
			all = append(all, r.Clone(context.Background()))
		}
		return nil, nil
	}, nil)
	return func() []*http.Request {
		w.reset()
		return all
	}
}

func (w *recorder) resend(t testing.TB, r *http.Request) {
	again := r.Clone(t.Context())
	again.Body = http.NoBody
	answer, err := w.transport.RoundTrip(again)
	require.NoError(t, err)
	require.NotEqual(t, http.StatusForbidden, answer.StatusCode, "the test's own fault")
	require.NoError(t, answer.Body.Close())
}

// T18: of two claims that compete for a free name, one gets the name, whatever the order of their requests.
func TestTrap_T18_BlobTwoClaimsInEveryOrder(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		for _, step := range []verb{verbRead, verbCreate, verbWrite, verbAcquire} {
			b := newBed(t)
			if used {
				b.acquire("n", "x")
				b.release("n", "x")
			}
			rival, _ := b.process()
			var theirs error
			b.recorder.runBefore(step, func() { _, theirs = rival.Acquire(t.Context(), acquireRequest("n", "b")) })
			_, mine := b.try("n", "a")
			b.recorder.reset()
			if step == verbCreate && used || step == verbWrite && !used {
				require.NoError(t, mine)
				continue
			}
			require.NotEqual(t, mine == nil, theirs == nil, "%s: %v, %v", step, mine, theirs)
			holder := "a"
			if mine != nil {
				require.ErrorIs(t, mine, abstractions.ErrHeld)
				holder = "b"
			} else {
				require.ErrorIs(t, theirs, abstractions.ErrHeld)
			}
			require.Equal(t, abstractions.FingerprintOf(holder), b.inspect("n").Fingerprint)
		}
	}
}

// A process dies after it has written its claim, and before it has acquired the lease. The name is reserved for that claim for a
// while, and is then free.
func TestBlobReservationEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.recorder.answerWith(verbAcquire, 500)
	_, err := b.try("n", "dead")
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	b.recorder.reset()
	minted := b.inspect("n")
	require.True(t, minted.Unconfirmed, "whether it has the lease, nobody knows yet")

	_, err = b.try("n", "b")
	var held *abstractions.HeldError
	require.ErrorAs(t, err, &held)
	left, known := held.Holder.Remaining()
	require.True(t, held.Holder.Unconfirmed && known)
	require.Positive(t, left)
	require.LessOrEqual(t, left, reservation)
	b.waitFor(reservation)
	g := b.acquire("n", "b")
	require.Greater(t, g.Token, minted.Token)
	_, err = b.try("n", "dead")
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.NoError(t, b.renew(g))
}

// T16, T19: a process dies between the two requests of its release. No other claim
// waits for the lease, even if it is infinite.
func TestTrap_T16_BlobReleaseThatEndsHalfWayIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, by := range []string{"acquire", "break", "break at once", "release"} {
		req := acquireRequest(by, "a")
		req.TTL = abstractions.Infinite
		g, err := b.Acquire(t.Context(), req)
		require.NoError(t, err)
		b.recorder.answerWith(verbRelease, 500)
		require.ErrorIs(t, b.Release(t.Context(), releaseRequest(g)), abstractions.ErrUnavailable)
		b.recorder.reset()
		require.True(t, b.view(by).isLocked())
		require.True(t, b.inspect(by).Unconfirmed)
		switch by {
		case "acquire":
		case "release":
			b.release(by, "a")
			require.False(t, b.inspect(by).Held)
		default:
			r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: by, Immediate: by == "break at once"})
			require.NoError(t, err)
			require.Equal(t, abstractions.BreakResult{Token: g.Token}, r)
		}
		next := b.acquire(by, "b")
		require.Greater(t, next.Token, g.Token)
		require.NoError(t, b.Release(t.Context(), releaseRequest(g)), "its own repetition")
		require.NoError(t, b.renew(next))
	}
}

// T63: the lease that a break names ends between the read and the break, and another
// lease begins.
func TestTrap_T63_BlobBreakBetweenTwoHolders(t *testing.T) {
	t.Parallel()
	for _, immediate := range []bool{false, true} {
		for _, step := range []verb{verbWrite, verbBreak, verbRelease} {
			b := newBed(t)
			first := b.acquire("n", "a")
			rival, _ := b.process()
			var next abstractions.Grant
			b.recorder.runBefore(step, func() {
				require.NoError(t, rival.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}))
				var err error
				next, err = rival.Acquire(t.Context(), acquireRequest("n", "b"))
				require.NoError(t, err)
			})
			r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", IfToken: first.Token, Immediate: immediate})
			b.recorder.reset()
			if (step == verbBreak) == immediate && step != verbWrite {
				continue // this Break does not have this step
			}
			require.NoError(t, err, "it had been broken by then, or was free")
			require.Equal(t, abstractions.BreakResult{WasHeld: step != verbWrite, Token: first.Token}, r, "before %s", step)
			_, err = rival.Renew(t.Context(), renewRequest(next))
			require.NoError(t, err)
			require.False(t, b.inspect("n").Breaking)
		}
	}
}

// T20: the lease has run out, another claim acquires the name, and the former
// holder's renewal comes before, between and after the two requests of that
// acquire.
func TestTrap_T20_BlobRenewalBesideATakeOver(t *testing.T) {
	t.Parallel()
	for _, step := range []verb{verbWrite, verbAcquire, verbOther} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			req := acquireRequest("n", "a")
			req.TTL = minTTL
			g, err := b.Acquire(t.Context(), req)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return !b.view("n").isLocked() }, time.Minute, 100*time.Millisecond)
			holder, _ := b.process()
			var renewed error
			b.recorder.runBefore(step, func() { _, renewed = holder.Renew(t.Context(), renewRequest(g)) })
			next, err := b.try("n", "b")
			b.recorder.reset()
			if step == verbOther {
				_, renewed = holder.Renew(t.Context(), renewRequest(g))
			}
			require.NoError(t, err)
			if step == verbWrite {
				requireLost(t, renewed, abstractions.LostExpired)
			} else {
				requireLost(t, renewed, abstractions.LostTaken)
			}
			require.NoError(t, b.renew(next))
			require.NoError(t, b.Release(t.Context(), releaseRequest(next)))
			_, err = holder.Renew(t.Context(), renewRequest(g))
			requireLost(t, err, abstractions.LostTaken)
		})
	}
}

// If other processes change the record all the time, a call fails and does not hang.
func TestBlobContentionEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.acquire("n", "a")
	b.release("free", "x")
	rival, _ := b.process()
	b.recorder.set(func(v verb, r *http.Request) (*http.Response, error) {
		if v == verbRead {
			return nil, nil
		}
		return newAnswer(r, http.StatusPreconditionFailed, "x-ms-error-code", "ConditionNotMet"), nil
	}, nil)
	_, err := b.try("free", "b")
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	err = b.renew(g)
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.NotErrorIs(t, err, abstractions.ErrLost)
	require.ErrorIs(t, b.Release(t.Context(), releaseRequest(g)), abstractions.ErrUnavailable)
	_, err = b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.LessOrEqual(t, len(b.recorder.count()), 150)
	b.recorder.reset()
	_, err = rival.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
}

// An answer without a Date yields no token.
func TestTrap_T02_BlobServiceWithoutAClock(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.recorder.set(nil, func(_ verb, answer *http.Response) (*http.Response, error) {
		answer.Header.Del("Date")
		return answer, nil
	})
	_, err := b.try("n", "a")
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	require.Equal(t, []verb{verbRead}, b.recorder.count())
}

// T02: the service's clock differs from the local clock by minutes, either way.
func TestTrap_T02_BlobClientsClockDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-20 * time.Minute, 20 * time.Minute} {
		b := newBed(t)
		b.recorder.advanceClock(skew)
		g := b.acquire("n", "a")
		require.WithinDuration(t, time.Now().Add(skew), time.UnixMicro(g.Token), time.Minute)
		require.WithinDuration(t, b.inspect("n").Now, b.inspect("n").AcquiredAt, time.Minute)
		_, err := b.try("n", "b")
		require.ErrorIs(t, err, abstractions.ErrHeld)
		require.NoError(t, b.renew(g))
		require.NoError(t, b.Release(t.Context(), releaseRequest(g)))
		b.recorder.set(func(v verb, r *http.Request) (*http.Response, error) {
			if v == verbAcquire {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, nil
		}, nil)
		_, err = b.try("n", "dead")
		require.Error(t, err)
		b.recorder.set(nil, nil)
		_, err = b.try("n", "b")
		var held *abstractions.HeldError
		require.True(t, errors.As(err, &held), "reserved, by the service's clock")
		b.waitFor(reservation)
		require.Greater(t, b.acquire("n", "b").Token, g.Token)
	}
}
