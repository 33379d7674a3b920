package console_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/console"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "a-token-of-enough-bytes"

// fixture is a console of a memory provider, with a server and an HTTP client.
type fixture struct {
	t        testing.TB
	provider *countingProvider
	manager  *leasing.Manager
	console  *console.Console
	server   *httptest.Server
	client   *http.Client
}

// countingProvider counts the requested pages of lists, and can fail.
type countingProvider struct {
	leasing.Provider
	lists atomic.Int64
	fail  atomic.Pointer[error]
	hang  atomic.Pointer[chan struct{}] // requests hang until the channel is closed
}

func (c *countingProvider) As(target any) bool {
	switch target := target.(type) {
	case *abstractions.Lister:
		*target = c
	case *abstractions.Pinger:
		*target = c
	case *abstractions.HistoryReader:
		*target = c
	case *abstractions.Waiter:
		*target, _ = abstractions.As[abstractions.Waiter](c.Provider)
	case *abstractions.WaiterLister:
		*target, _ = abstractions.As[abstractions.WaiterLister](c.Provider)
	default:
		return false
	}
	return true
}

func (c *countingProvider) Ping(context.Context) error {
	if err := c.fail.Load(); err != nil {
		return *err
	}
	return nil
}

func (c *countingProvider) History(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	if err := c.fail.Load(); err != nil {
		return abstractions.HistoryResult{}, *err
	}
	reader, _ := abstractions.As[abstractions.HistoryReader](c.Provider)
	return reader.History(ctx, req)
}

func (c *countingProvider) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	c.lists.Add(1)
	if hang := c.hang.Load(); hang != nil {
		select {
		case <-*hang:
		case <-ctx.Done():
			return abstractions.ListResult{}, ctx.Err()
		}
	}
	if err := c.fail.Load(); err != nil {
		return abstractions.ListResult{}, *err
	}
	lister, _ := abstractions.As[abstractions.Lister](c.Provider)
	return lister.List(ctx, req)
}

func newFixture(t testing.TB, options console.Options) *fixture {
	t.Helper()
	w := &fixture{t: t, provider: &countingProvider{Provider: memlease.New(memlease.Options{History: 100})}}
	var err error
	w.manager, err = leasing.NewManager(w.provider, leasing.Options{Owner: "worker-1"})
	require.NoError(t, err)
	options.Provider = w.provider
	w.console, err = console.New(w.manager, options)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/leases/", http.StripPrefix("/leases", w.console))
	w.server = httptest.NewServer(mux)
	w.client = w.server.Client()
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() {
		w.console.Close()
		w.server.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // held leases may expire
		_ = w.manager.Close(ctx)
		require.NoError(t, w.provider.Close())
	})
	return w
}

// hold acquires a name.
func (w *fixture) hold(name string, options *leasing.AcquireOptions) *leasing.Lease {
	w.t.Helper()
	m := w.manager
	if options != nil {
		m = m.With(*options)
	}
	lease, err := m.TryAcquire(w.t.Context(), name)
	require.NoError(w.t, err)
	return lease
}

// answer is a response without its body.
type answer struct {
	StatusCode int
	Header     http.Header
}

// do sends a request, to which it first applies change, and returns the answer and the page.
func (w *fixture) do(method, path string, form url.Values, change ...func(*http.Request)) (answer, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.server.URL+"/leases/"+path, strings.NewReader(form.Encode()))
	require.NoError(w.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, change := range change {
		change(req)
	}
	reply, err := w.client.Do(req)
	require.NoError(w.t, err)
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	require.NoError(w.t, err)
	return answer{reply.StatusCode, reply.Header}, string(body)
}

func (w *fixture) get(path string, change ...func(*http.Request)) (int, string) {
	w.t.Helper()
	reply, body := w.do(http.MethodGet, path, nil, change...)
	return reply.StatusCode, body
}

// page gets an existing page.
func (w *fixture) page(path string, change ...func(*http.Request)) string {
	w.t.Helper()
	status, body := w.get(path, change...)
	require.Equal(w.t, http.StatusOK, status, body)
	return body
}

func signedIn(r *http.Request) { r.SetBasicAuth("alice", secret) }

func header(key, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(key, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func token(t *testing.T) console.Access {
	t.Helper()
	access, err := console.Token(secret)
	require.NoError(t, err)
	return access
}

// events opens a stream: next returns the next event, and leave closes the stream.
func (w *fixture) events(path string, change ...func(*http.Request)) (next func() string, leave func()) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL+"/leases/live/"+path, nil)
	require.NoError(w.t, err)
	for _, change := range change {
		change(req)
	}
	reply, err := w.client.Do(req) //nolint:bodyclose // leave closes it
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, reply.StatusCode)
	require.Equal(w.t, "text/event-stream", reply.Header.Get("Content-Type"))
	pull, stop := iter.Pull(func(yield func(string) bool) {
		var event strings.Builder
		for lines := bufio.NewScanner(reply.Body); lines.Scan(); {
			if line, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				fmt.Fprintln(&event, line)
			} else if line == "" {
				if !yield(event.String()) {
					return
				}
				event.Reset()
			}
		}
	})
	leave = func() { cancel(); stop(); reply.Body.Close() }
	w.t.Cleanup(leave)
	return func() string {
		event, ok := pull()
		require.True(w.t, ok, "the stream has ended")
		return event
	}, leave
}

// until returns the first event for which a condition holds.
func until(next func() string, holds func(string) bool) string {
	for {
		if event := next(); holds(event) {
			return event
		}
	}
}
