package httpjson

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A call whose context ends also ends at the server, and its error does not contain the
// context's cause.
func TestTrap_T88_OwnEndIsReportedWithoutItsCause(t *testing.T) {
	users, wire := faulttest.NewWire(http.DefaultTransport)
	*wire = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
		response, err := send(req)
		require.Equal(t, context.Canceled, context.Cause(req.Context()), "other requests may get it")
		return response, err
	}
	for _, client := range []*http.Client{nil, users} {
		begun, gone := make(chan struct{}), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			close(begun)
			<-req.Context().Done()
			close(gone)
		}))
		c := New(server.URL, client, func(*http.Request) error { return nil })
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-begun
			cancel(abstractions.ErrLost)
		}()
		_, err := c.Do(ctx, http.MethodPut, "/", nil, "text", nil)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, abstractions.ErrLost)
		<-gone // one attempt
		c.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		server.Close()
	}
}

// A call whose context ends while it waits for a slot sends nothing, and its error says that
// it was not applied.
func TestAWaitForAPlaceEndsWithItsContext(t *testing.T) {
	c := New("http://127.0.0.1:1", nil, nil)
	c.Slots = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Do(ctx, http.MethodGet, "/", nil, nil, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.True(t, abstractions.NotApplied(err))
}
