package httpjson

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, handler http.HandlerFunc) *Client {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c := New(server.URL, nil, func(*http.Request) error { return nil })
	t.Cleanup(c.Close)
	return c
}

// Requests are given up at all moments, with causes that would say something of a lease, and
// answers have no body: the worst case of golang.org/issue/41600.
func TestTrap_T66_AbandonedRequestsHarmNoOthers(t *testing.T) {
	c := open(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	ask := func(ctx context.Context) error {
		_, err := c.Do(ctx, http.MethodGet, "/", nil, nil, nil)
		return err
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for !stop.Load() {
				ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
				go cancel(abstractions.ErrReleased)
				_ = ask(ctx)
			}
		})
	}
	for range 500 {
		if err := ask(t.Context()); StatusOf(err) != http.StatusNotFound {
			t.Errorf("a request that nobody has given up: %v", err)
			break
		}
	}
	stop.Store(true)
	all.Wait()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

func TestCutOffRequestIsSentAgain(t *testing.T) {
	for cuts := range attempts + 1 {
		var want error
		if cuts == 3 {
			want = abstractions.ErrUnavailable
		}
		sent := 0
		c := New("http://service", &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			require.Equal(t, `"text"`, string(body), "each time")
			if sent++; sent <= cuts {
				return nil, context.Canceled
			}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("7"))}, nil
		})}, func(*http.Request) error { return nil })
		var answer int
		_, err := c.Do(t.Context(), http.MethodPut, "/", nil, "text", &answer)
		require.ErrorIs(t, err, want)
		require.NotErrorIs(t, err, context.Canceled, "it was not this call that ended")
		require.Equal(t, min(cuts+1, attempts), sent)
		require.True(t, want != nil || answer == 7)
	}
}

func TestOwnEndIsTold(t *testing.T) {
	begun, gone := make(chan struct{}), make(chan struct{})
	c := open(t, func(_ http.ResponseWriter, req *http.Request) {
		close(begun)
		<-req.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-begun
		cancel(errors.New("why"))
	}()
	transport := c.client.Transport
	c.client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		response, err := transport.RoundTrip(req)
		require.Equal(t, context.Canceled, context.Cause(req.Context()), "others may be told it")
		return response, err
	})
	_, err := c.Do(ctx, http.MethodGet, "/", nil, nil, nil)
	require.Equal(t, context.Canceled, err)
	<-gone // one attempt, which is ended at the server too
}
