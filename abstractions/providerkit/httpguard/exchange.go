package httpguard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// sharedClient sends requests through the application's client. The contexts of the sent requests
// have no cause, since a cause may be an error of a lease, and Go may report it to other
// requests: see Transport.
type sharedClient func(*http.Request) (*http.Response, error)

// Do sends a request. If the error reports the end of a context, that context is
// the request's own.
func (send sharedClient) Do(req *http.Request) (*http.Response, error) {
	return exchange(send, nil, req)
}

// lateEnd bounds the time for which a request continues after its context has ended, if the
// context ends between the first byte and the end of the answer's header.
const lateEnd = 2 * time.Second

// exchange sends a request. conns maps each HTTP/1 connection to its latest request: a
// channel that is closed when the request has an answer. conns is nil if send may make several
// requests for a single call.
func exchange(send sharedClient, conns *sync.Map, req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	const answered, ended = 1, 2
	var first atomic.Int32 // answered, ended, or 0 before both
	returned := make(chan struct{})
	stop := providerkit.AfterFunc(ctx, func() {
		if !first.CompareAndSwap(0, ended) {
			timer := time.NewTimer(lateEnd)
			defer timer.Stop()
			select {
			case <-returned:
			case <-timer.C:
			}
		}
		cancel()
	})
	done := func() { stop(); cancel() }
	if ctx.Err() != nil {
		done() // nothing is sent
	}
	var guard *resendGuard // of the application's client
	trace := &httptrace.ClientTrace{}
	if conns == nil {
		guard = newResendGuard(req, cancel)
		trace.GetConn, trace.WroteRequest = guard.getConn, guard.wroteRequest
	}
	var used net.Conn
	leave := func() {
		if used != nil {
			conns.CompareAndDelete(used, returned)
		}
	}
	trace.GotConn = func(info httptrace.GotConnInfo) {
		if conns == nil || isHTTP2(info.Conn) {
			return
		}
		leave()
		used = info.Conn
		if before, found := conns.Swap(used, returned); found {
			<-before.(chan struct{})
		}
	}
	trace.GotFirstResponseByte = func() {
		if !first.CompareAndSwap(0, answered) && first.Load() == ended {
			<-returned // until the request has returned and its connection is closed
		}
	}
	response, err := send(req.WithContext(httptrace.WithClientTrace(own, trace)))
	leave()
	close(returned)
	if guard != nil && guard.stopped.Load() && ctx.Err() == nil {
		if err == nil {
			_ = response.Body.Close()
		}
		done()
		return nil, errSentAgain
	}
	if err != nil {
		done()
		return nil, contextError(ctx, err)
	}
	response.Body = &sharedBody{response.Body, ctx, done}
	return response, nil
}

func isHTTP2(conn net.Conn) bool {
	secure, ok := conn.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// contextError replaces an error that reports the end of a context with ctx.Err() or, if
// ctx has not ended, with an error that leaves the outcome unknown.
func contextError(ctx context.Context, err error) error {
	if !errors.Is(err, context.Canceled) && !abstractions.NotApplied(err) {
		return err
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return fmt.Errorf("the end of another request closed the connection: %v", err)
}

type sharedBody struct {
	io.ReadCloser
	ctx  context.Context // of the request
	done func()
}

func (b *sharedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = contextError(b.ctx, err)
	}
	return n, err
}

func (b *sharedBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
