package cosmoslease

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// resent is a transport that returns an error instead of the reply to the first write, and
// answers later writes with a status.
type resent struct {
	next    *http.Transport
	lost    error
	applied bool
	status  int
	writes  int
}

func (r *resent) Do(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPut {
		return r.next.RoundTrip(req)
	}
	if r.writes++; r.writes > 1 {
		return &http.Response{
			StatusCode: r.status, Status: "as the test will have it", Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}, "X-Ms-Activity-Id": {"1"}},
			Body: http.NoBody, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}, nil
	}
	if r.applied {
		answer, err := r.next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		answer.Body.Close()
	}
	return nil, r.lost
}

func (b *bed) openThrough(r *resent) *Provider {
	r.next = b.pipe.Transport()
	b.t.Cleanup(r.next.CloseIdleConnections)
	return b.process(func(o *Options) { o.ClientOptions = clientOptions(r) })
}

// A write is not repeated after a kernel error on an established connection, although
// azcosmos treats some of these errors as failures to connect.
func TestAWriteThatMayHaveArrivedIsNotSentAgain(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.ECONNREFUSED, syscall.ECONNRESET} {
		for _, op := range []string{"read", "write"} {
			inBubble(t, func(t *testing.T, b *bed) {
				b.release(b.acquire("n", "x"))
				r := &resent{lost: &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, errno)}, applied: true, status: 429}
				p := b.openThrough(r)
				_, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
				require.NoError(t, err, "it was looked up")
				require.Equal(t, 1, r.writes, errno)
				require.Equal(t, abstractions.FingerprintOf("a"), b.inspect("n").Fingerprint)
			})
		}
	}
}

// After a failed dial no request was sent: azcosmos may try again, and a refusal of the
// second request is definite.
func TestAWriteThatWasNotSentIsSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.release(b.acquire("n", "x"))
		r := &resent{lost: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, status: 429}
		_, err := b.openThrough(r).Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrThrottled)
		require.Equal(t, 2, r.writes)
		require.False(t, b.inspect("n").Held)
	})
}

func TestErrorsOfAWriteShowTheContextAlone(t *testing.T) {
	write, read := &http.Request{Method: http.MethodPost}, &http.Request{Method: http.MethodGet}
	reset := &net.OpError{Op: "read", Err: syscall.ETIMEDOUT}
	require.NotErrorIs(t, requestError(t.Context(), write, reset), syscall.ETIMEDOUT)
	require.ErrorContains(t, requestError(t.Context(), write, reset), reset.Error())
	require.ErrorIs(t, requestError(t.Context(), read, reset), syscall.ETIMEDOUT)
	require.ErrorIs(t, requestError(t.Context(), write, &net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}), syscall.ETIMEDOUT)
	require.ErrorIs(t, requestError(t.Context(), write, context.DeadlineExceeded), context.DeadlineExceeded)
	require.ErrorIs(t, requestError(t.Context(), write, context.Canceled), context.Canceled)
	require.NotErrorIs(t, requestError(t.Context(), write, io.EOF), io.EOF)
}

// After a refused write, no later error proves that the call was not applied: azcosmos may
// have sent the write twice, and the first copy may have been applied.
func TestAfterARefusedWriteNothingIsCertain(t *testing.T) {
	for _, status := range []int{429, 403, 401, 400} {
		for _, verb := range []cosmostest.Verb{cosmostest.ReadItem, cosmostest.ReplaceItem} {
			inBubble(t, func(t *testing.T, b *bed) {
				g := b.acquire("n", "a")
				b.loseReply(cosmostest.ReplaceItem, func() error { _, err := b.renew(g); return err }) // makes the state old
				refused := false
				b.account.Before(func(op cosmostest.Operation) cosmostest.Fault {
					if refused && op.Verb == verb {
						return cosmostest.Fault{Status: status}
					}
					refused = refused || op.Write()
					return cosmostest.Fault{}
				})
				_, err := b.renew(g)
				requireUnknown(t, err)
				require.False(t, abstractions.NotApplied(err))
			})
		}
	}
}

// The cause of a canceled context may be the loss of another of the caller's leases, and is
// not reported as an answer about this lease.
func TestTrap_T88_TheCauseOfACancellationIsNoAnswer(t *testing.T) {
	other := errors.New("a cause of the caller's")
	for _, cause := range []error{
		&abstractions.LostError{Reason: abstractions.LostExpired}, abstractions.ErrHeld, &abstractions.ThrottledError{}, abstractions.ErrClosed, abstractions.ErrDenied,
		abstractions.ErrNotSetUp, abstractions.ErrStale, abstractions.ErrReleased, other,
	} {
		for _, verb := range []cosmostest.Verb{cosmostest.ReplaceItem, cosmostest.ReadItem} {
			inBubble(t, func(t *testing.T, b *bed) {
				g := b.acquire("n", "a")
				if verb == cosmostest.ReadItem {
					g.State = nil
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				b.account.Before(func(op cosmostest.Operation) cosmostest.Fault {
					if op.Verb == verb {
						cancel(cause)
					}
					return cosmostest.Fault{DelayReply: time.Second}
				})
				_, err := b.Renew(ctx, renewRequest(g))
				requireUnknown(t, err)
				_, err = b.Renew(ctx, renewRequest(g)) // the context has ended
				require.True(t, abstractions.NotApplied(err))
				require.NotErrorIs(t, err, cause)
			})
		}
	}
	inBubble(t, func(t *testing.T, b *bed) { // at the first use of a provider
		ctx, cancel := context.WithCancelCause(t.Context())
		b.account.Before(func(cosmostest.Operation) cosmostest.Fault {
			cancel(abstractions.ErrLost)
			return cosmostest.Fault{Delay: time.Second}
		})
		_, err := b.Acquire(ctx, acquireRequest("n", "a", time.Minute))
		requireUnknown(t, err)
	})
}

// causes is a transport whose errors are the causes of the requests' contexts, as in package
// net/http.
type causes struct{}

func (causes) Do(req *http.Request) (*http.Response, error) {
	return nil, context.Cause(req.Context())
}

func TestARequestDoesNotHandOnTheCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(abstractions.ErrLost)
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		req, err := http.NewRequestWithContext(ctx, method, "http://localhost/dbs", http.NoBody)
		require.NoError(t, err)
		_, err = newWire(t.Context(), causes{}).Do(req) //nolint:bodyclose // it has no body
		require.NotErrorIs(t, err, abstractions.ErrLost)
		require.ErrorIs(t, err, context.Canceled)
	}
}
