package bloblease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// fault is a failure of one request of a call.
type fault struct {
	name    string
	applied bool   // the service applied the request
	status  int    // of the answer; 0 is no answer
	code    string // the service's code
	err     error  // instead of an answer
	means   func(error) bool
}

func isUnknown(err error) bool {
	return errors.Is(err, abstractions.ErrUnavailable) && !errors.Is(err, abstractions.ErrThrottled)
}

func isThrottled(err error) bool { return errors.Is(err, abstractions.ErrThrottled) }

var faults = []fault{
	{name: "reply lost", applied: true, err: io.ErrUnexpectedEOF, means: isUnknown},
	{name: "connection reset after", applied: true, err: syscall.ECONNRESET, means: isUnknown},
	{name: "connection reset before", err: syscall.ECONNRESET, means: isUnknown},
	{name: "500 after", applied: true, status: 500, code: "InternalError", means: isUnknown},
	{name: "500 before", status: 500, code: "OperationTimedOut", means: isUnknown},
	{name: "408", status: 408, means: isUnknown},
	{name: "502 after", applied: true, status: 502, means: isUnknown},
	{name: "503 of something in between, after", applied: true, status: 503, means: isUnknown},
	{name: "503", status: 503, code: "ServerBusy", means: isThrottled},
	{name: "429", status: 429, code: "TooManyRequests", means: isThrottled},
}

// inject applies the fault to the n-th of the following requests, counted from 0. hit
// reports whether the request was made.
func (f fault) inject(w *recorder, n int) (hit func() bool) {
	seen, struck := 0, false
	now := func() bool {
		seen++
		struck = struck || seen == n+1
		return seen == n+1
	}
	spoiled := func(r *http.Request) (*http.Response, error) {
		if f.err != nil {
			return nil, f.err
		}
		if f.code == "" {
			return newAnswer(r, f.status), nil
		}
		return newAnswer(r, f.status, "x-ms-error-code", f.code), nil
	}
	if f.applied {
		w.set(nil, func(_ verb, answer *http.Response) (*http.Response, error) {
			if !now() {
				return answer, nil
			}
			_ = answer.Body.Close()
			return spoiled(answer.Request)
		})
	} else {
		w.set(func(_ verb, r *http.Request) (*http.Response, error) {
			if !now() {
				return nil, nil
			}
			return spoiled(r)
		}, nil)
	}
	return func() bool { return struck }
}

// eachFault runs a scenario with each fault at each request of the scenario's call, until
// the call has no further request.
func eachFault(t *testing.T, run func(t *testing.T, b *bed, name string, f fault, strike func() func() bool) (hit bool)) {
	b := newBed(t)
	for _, f := range faults {
		for n := 0; ; n++ {
			name := fmt.Sprintf("%s, request %d", f.name, n)
			hit := false
			t.Run(name, func(t *testing.T) {
				mine := *b
				mine.t = t
				hit = run(t, &mine, abstractions.NewID(), f, func() func() bool { return f.inject(b.recorder, n) })
				b.recorder.reset()
			})
			if !hit {
				require.Positive(t, n)
				break
			}
		}
	}
}

// T13, T16: an acquire that is repeated, after any outcome of the first attempt, is the same
// claim.
func TestTrap_T13_BlobAcquireIsRepeated(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, b *bed, name string, f fault, strike func() func() bool) bool {
		for _, used := range []bool{true, false} {
			what, id, last := fmt.Sprint(name, used), abstractions.NewID(), int64(0)
			if used {
				g := b.acquire(what, "x")
				last = g.Token
				require.NoError(t, b.Release(t.Context(), releaseRequest(g)))
			}
			b.recorder.count()
			hit := strike()
			_, err := b.try(what, id)
			b.recorder.reset()
			if !hit() {
				require.NoError(t, err)
				return false
			}
			require.Truef(t, f.meansAfter(b.recorder)(err), "%v", err)
			g := b.acquire(what, id)
			require.Greater(t, g.Token, last)
			require.Equal(t, g.Token, b.inspect(what).Token)
			require.Equal(t, abstractions.FingerprintOf(id), b.inspect(what).Fingerprint)
			_, err = b.try(what, "other")
			require.ErrorIs(t, err, abstractions.ErrHeld)
			require.NoError(t, b.renew(g))
			require.NoError(t, b.Release(t.Context(), releaseRequest(g)))
			require.Greater(t, b.acquire(what, "next").Token, g.Token)
		}
		return true
	})
}

// T16, T56: the clean-up of an acquire leaves nothing behind, and the acquire's
// requests that are still in flight do nothing.
func TestTrap_T16_BlobAcquireThatIsGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, b *bed, name string, f fault, strike func() func() bool) bool {
		id := abstractions.NewID()
		hit := strike()
		_, err := b.try(name, id)
		b.recorder.reset()
		if !hit() {
			return false
		}
		require.Error(t, err)
		b.release(name, id)
		require.False(t, b.inspect(name).Held)
		_, err = b.try(name, id)
		require.ErrorIs(t, err, abstractions.ErrReleased)
		b.acquire(name, "next")
		return true
	})
}

// T14: a repeated release causes no error, and does not affect other holders.
func TestTrap_T14_BlobReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, b *bed, name string, f fault, strike func() func() bool) bool {
		g := b.acquire(name, "a")
		b.recorder.count()
		hit := strike()
		err := b.Release(t.Context(), releaseRequest(g))
		b.recorder.reset()
		if !hit() {
			require.NoError(t, err)
			return false
		}
		require.Truef(t, f.meansAfter(b.recorder)(err), "%v", err)
		require.NoError(t, b.Release(t.Context(), releaseRequest(g)))
		next := b.acquire(name, "b")
		require.Greater(t, next.Token, g.Token)
		require.NoError(t, b.Release(t.Context(), releaseRequest(g)), "late")
		require.NoError(t, b.renew(next))
		_, err = b.try(name, "a")
		require.ErrorIs(t, err, abstractions.ErrReleased)
		return true
	})
}

// T14, T15: repeated renewals cause no loss, even with an old state, and even if they change the
// TTL.
func TestTrap_T15_BlobRenewalIsRepeated(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, b *bed, name string, f fault, strike func() func() bool) bool {
		req := acquireRequest(name, abstractions.NewID())
		req.TTL = minTTL
		g, err := b.Acquire(t.Context(), req)
		require.NoError(t, err)
		any := false
		for _, ttl := range []time.Duration{minTTL, maxTTL, abstractions.Infinite, 30 * time.Second} {
			longer := renewRequest(g)
			longer.TTL = ttl
			b.recorder.count()
			hit := strike()
			_, err := b.Renew(t.Context(), longer)
			b.recorder.reset()
			if !hit() {
				require.NoError(t, err)
			} else {
				require.Truef(t, f.meansAfter(b.recorder)(err), "%v", err)
				any = true
			}
			again, err := b.Renew(t.Context(), longer)
			require.NoError(t, err)
			require.Equal(t, g.Token, again.Token)
			require.Equal(t, ttl, again.TTL)
			native := b.view(name).seconds
			require.True(t, native == infinite || native >= seconds(min(ttl, maxTTL)))
			require.Equal(t, ttl == abstractions.Infinite, native == infinite)
		}
		_, err = b.try(name, "other")
		require.ErrorIs(t, err, abstractions.ErrHeld)
		require.NoError(t, b.Release(t.Context(), releaseRequest(g)))
		return any
	})
}

// T63: a repeated break ends the lease that it names and no other.
func TestTrap_T63_BlobBreakIsRepeated(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, b *bed, name string, f fault, strike func() func() bool) bool {
		any := false
		for _, immediate := range []bool{false, true} {
			g := b.acquire(name, abstractions.NewID())
			req := abstractions.BreakRequest{Name: name, IfToken: g.Token, Immediate: immediate}
			b.recorder.count()
			hit := strike()
			_, err := b.Break(t.Context(), req)
			b.recorder.reset()
			if !hit() {
				require.NoError(t, err)
			} else {
				require.Truef(t, f.meansAfter(b.recorder)(err), "%v", err)
				any = true
			}
			r, err := b.Break(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, g.Token, r.Token)
			requireLost(t, b.renew(g), abstractions.LostBroken)
			_, err = b.try(name, g.ID)
			require.ErrorIs(t, err, abstractions.ErrReleased)
			if !immediate {
				require.True(t, b.inspect(name).Breaking)
				_, err := b.try(name, "other")
				require.ErrorIs(t, err, abstractions.ErrHeld)
				require.NoError(t, b.Release(t.Context(), releaseRequest(g)))
			}
			next := b.acquire(name, abstractions.NewID())
			_, err = b.Break(t.Context(), req)
			require.ErrorIs(t, err, abstractions.ErrStale)
			require.NoError(t, b.renew(next))
			require.NoError(t, b.Release(t.Context(), releaseRequest(next)))
		}
		return any
	})
}

func requireLost(t testing.TB, err error, reason abstractions.LostReason) {
	t.Helper()
	var lost *abstractions.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, reason, lost.Reason)
}

// T14: the client library does not retry.
func TestTrap_T14_BlobLibraryDoesNotRetry(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.acquire("n", "a")
	for _, status := range []int{408, 429, 500, 502, 503, 504} {
		b.recorder.answerWith("", status)
		for what, call := range everyCall(b.Provider, g) {
			b.recorder.count()
			require.Error(t, call(t.Context()), what)
			require.Len(t, b.recorder.count(), 1, "%s %d", what, status)
		}
	}
	b.recorder.reset()
	require.NoError(t, b.renew(g))
}

// everyCall returns all methods that take a context, on a held claim.
func everyCall(p *Provider, g abstractions.Grant) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"acquire": func(ctx context.Context) error {
			_, err := p.Acquire(ctx, acquireRequest(g.Name, "another"))
			return err
		},
		"renew":   func(ctx context.Context) error { _, err := p.Renew(ctx, renewRequest(g)); return err },
		"release": func(ctx context.Context) error { return p.Release(ctx, releaseRequest(g)) },
		"break": func(ctx context.Context) error {
			_, err := p.Break(ctx, abstractions.BreakRequest{Name: g.Name})
			return err
		},
		"inspect": func(ctx context.Context) error {
			_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: g.Name})
			return err
		},
		"list":  func(ctx context.Context) error { _, err := p.List(ctx, abstractions.ListRequest{}); return err },
		"ping":  p.Ping,
		"sweep": func(ctx context.Context) error { _, err := p.Sweep(ctx); return err },
	}
}
