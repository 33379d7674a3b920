package httpguard

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

func serve(t *testing.T, handler http.HandlerFunc) (*Transport, string) {
	server := httptest.NewServer(handler)
	transport := NewTransport()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return transport, server.URL
}

func ask(ctx context.Context, t *testing.T, send sharedClient, method, url string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	require.NoError(t, err)
	response, err := send(req)
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, response.Body.Close()) }()
	_, err = io.ReadAll(response.Body)
	return err
}

// harmWindow is the time in which a request would harm another.
const harmWindow = 50 * time.Millisecond

// T66: a request has returned its connection to the pool, but has no answer yet, when the
// next request gets the connection. One of the two requests is given up.
func TestTrap_T66_RequestsGivenUpHarmNeitherTheNextNorTheOneBefore(t *testing.T) {
	for _, given := range []string{"before", "next"} {
		arrived := make(chan struct{}, 1)
		transport, url := serve(t, func(_ http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodPut {
				arrived <- struct{}{}
			}
		})
		wait := func(c <-chan struct{}) {
			select {
			case <-c:
			case <-time.After(harmWindow):
			}
		}
		for range 5 {
			var before, next error
			up, giveUp := context.WithCancelCause(t.Context())
			contexts := map[string]context.Context{given: up}
			of := func(which string) context.Context {
				if ctx := contexts[which]; ctx != nil {
					return ctx
				}
				return t.Context()
			}
			gone, all := make(chan struct{}, 2), sync.WaitGroup{}
			before = ask(httptrace.WithClientTrace(of("before"), &httptrace.ClientTrace{PutIdleConn: func(error) {
				all.Go(func() {
					next = ask(of("next"), t, transport.RoundTrip, http.MethodPut, url)
					gone <- struct{}{}
				})
				wait(arrived)
				giveUp(abstractions.ErrReleased)
				wait(gone)
			}}), t, transport.RoundTrip, http.MethodGet, url)
			all.Wait()
			require.NoError(t, map[string]error{"before": next, "next": before}[given], "the one that nobody has given up")
		}
	}
}

// T66: Go does not read the answer to a request that was already given up, so it can't return to
// the pool a connection that it is about to close.
func TestTrap_T66_AnswerToRequestGivenUpIsNotRead(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	read := make(chan struct{})
	err := ask(ctx, t, sharedClient(func(req *http.Request) (*http.Response, error) {
		giveUp()
		<-req.Context().Done()
		go func() {
			httptrace.ContextClientTrace(req.Context()).GotFirstResponseByte()
			close(read)
		}()
		select {
		case <-read:
			t.Error("the connection is not closed")
		case <-time.After(harmWindow):
		}
		return nil, req.Context().Err()
	}).Do, http.MethodPut, "http://service")
	require.Equal(t, context.Canceled, err)
	<-read
}

// T66: requests are given up just as their answers, which have no body, arrive. Nothing is sent
// twice.
func TestTrap_T66_RequestsGivenUpHarmNoOthers(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		var served atomic.Int64
		var ends sync.Map
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			if giveUp, found := ends.LoadAndDelete(req.URL.Path); found {
				go giveUp.(context.CancelCauseFunc)(abstractions.ErrReleased)
				return
			}
			served.Add(1)
		}))
		transport, start := NewTransport(), server.Start
		if server.EnableHTTP2 = http2; http2 {
			start = server.StartTLS
		}
		start()
		if http2 {
			transport.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		}
		var stop atomic.Bool
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for n := 0; !stop.Load(); n++ {
					ctx, giveUp := context.WithCancelCause(context.WithoutCancel(t.Context()))
					path := fmt.Sprintf("/%d/%d", i, n)
					ends.Store(path, giveUp)
					_ = ask(ctx, t, transport.RoundTrip, http.MethodGet, server.URL+path)
					giveUp(nil)
				}
			})
		}
		const asked = 100
		for range asked {
			if err := ask(t.Context(), t, transport.RoundTrip, http.MethodPut, server.URL); err != nil {
				t.Errorf("a request that nobody has given up: %v", err)
			}
		}
		stop.Store(true)
		all.Wait()
		require.EqualValues(t, asked, served.Load(), "as often as they were sent")
		transport.CloseIdleConnections()
		server.Close()
	}
}

// A request that is given up before the answer, or in the middle of the answer's header or body,
// returns the error of its context, not the cause.
func TestOwnEndIsReportedWithoutItsCause(t *testing.T) {
	for _, text := range []string{"", "HTTP/1.1 200 OK\r\nContent-", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		transport, url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, stream, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = stream.WriteString(text)
			_ = stream.Flush()
			time.AfterFunc(harmWindow, func() { cancel(abstractions.ErrLost) })
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			_, _ = io.Copy(io.Discard, conn) // until the other side closes it
			_ = conn.Close()
		})
		require.Equal(t, context.Canceled, ask(ctx, t, transport.RoundTrip, http.MethodGet, url), text)
	}
}

// The error of another request's context, from an application's transport, says nothing about this
// lease.
func TestForeignEndsAreUnknown(t *testing.T) {
	for _, foreign := range []error{context.Canceled, abstractions.ErrLost} {
		send := sharedClient(func(*http.Request) (*http.Response, error) { return nil, foreign })
		err := ask(t.Context(), t, send.Do, http.MethodPut, "http://service")
		require.Error(t, err)
		require.NotErrorIs(t, err, foreign)
		require.False(t, abstractions.NotApplied(err))

		body := sharedClient(func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: io.NopCloser(io.MultiReader(strings.NewReader("a"), failingReader{foreign}))}, nil
		})
		err = ask(t.Context(), t, body.Do, http.MethodPut, "http://service")
		require.Error(t, err)
		require.NotErrorIs(t, err, foreign)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, context.Canceled, ask(over, t, sharedClient(func(req *http.Request) (*http.Response, error) {
		return nil, req.Context().Err() // before anything is sent
	}).Do, http.MethodPut, "http://service"))
	send := sharedClient(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		require.Equal(t, context.Canceled, context.Cause(req.Context()), "other requests may get it")
		return nil, context.Cause(req.Context())
	})
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, abstractions.ErrLost)
	defer cancel()
	require.Equal(t, context.DeadlineExceeded, ask(ctx, t, send.Do, http.MethodPut, "http://service"))
	require.Equal(t, io.ErrUnexpectedEOF, contextError(ctx, io.ErrUnexpectedEOF), "the network's")
}

type failingReader struct{ error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.error }
