package httpfence_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/httpfence"
	"github.com/distributedleasing/leasing/fencing/internal/fencingtest"
)

// roundTrip is a RoundTripper that records its requests.
type roundTrip struct {
	got    *http.Request
	closed bool
}

func (r *roundTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	r.got = req
	return &http.Response{StatusCode: http.StatusPreconditionFailed, Body: http.NoBody, Request: req}, nil
}

func (r *roundTrip) CloseIdleConnections() { r.closed = true }

func send(transport *httpfence.Transport, req *http.Request) (status int, err error) {
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// named is the part of a lease that this package uses.
type named struct {
	token int64
	name  string
}

func (n named) Token() int64 { return n.token }
func (n named) Name() string { return n.name }

var _ httpfence.Holder = (*leasing.Lease)(nil)

func request(ctx context.Context, t *testing.T) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://user:pw@example.test/reports/1?key=secret", strings.NewReader("body"))
	require.NoError(t, err)
	return req
}

func TestTransportShowsTheTokenOfTheRequestsLease(t *testing.T) {
	base := &roundTrip{}
	transport := &httpfence.Transport{Base: base, Lease: httpfence.Token(1)}
	req := request(httpfence.WithLease(t.Context(), named{34, "reports/täglich 1%"}), t)
	status, err := send(transport, req)
	require.NoError(t, err)
	require.Equal(t, http.StatusPreconditionFailed, status, "an answer is an answer: a RoundTripper does not interpret it")
	require.Equal(t, []string{"34"}, base.got.Header.Values("Leasing-Token"))
	require.Equal(t, []string{"reports%2Ft%C3%A4glich%201%25"}, base.got.Header.Values("Leasing-Name"))
	require.Empty(t, req.Header, "the caller's request stays as it was")
	body, err := io.ReadAll(base.got.Body)
	require.NoError(t, err)
	require.Equal(t, "body", string(body))
	require.Equal(t, req.ContentLength, base.got.ContentLength)
}

func TestTransportFallsBackOnItsOwnLease(t *testing.T) {
	base := &roundTrip{}
	_, err := send(&httpfence.Transport{Base: base, Lease: httpfence.Token(33)}, request(t.Context(), t))
	require.NoError(t, err)
	require.Equal(t, http.Header{"Leasing-Token": {"33"}}, base.got.Header, "a number has no name")

	req := request(httpfence.WithLease(t.Context(), nil), t)
	_, err = send(&httpfence.Transport{Base: base}, req)
	require.NoError(t, err)
	require.Same(t, req, base.got)
	require.Empty(t, base.got.Header)

	bare := request(t.Context(), t)
	bare.Header = nil
	_, err = send(&httpfence.Transport{Base: base, Lease: named{33, ""}}, bare)
	require.NoError(t, err)
	require.Equal(t, http.Header{"Leasing-Token": {"33"}}, base.got.Header)
	require.Nil(t, bare.Header)
}

// closeCounter is a body that counts its closes.
type closeCounter struct {
	io.Reader
	closed int
}

func (c *closeCounter) Close() error { c.closed++; return nil }

func TestTransportOverwritesNoOtherToken(t *testing.T) {
	for name, header := range map[string]http.Header{
		"another token":   {"Leasing-Token": {"33"}},
		"two of the same": {"Leasing-Token": {"34", "34"}},
		"another lease":   {"Leasing-Token": {"34"}, "Leasing-Name": {"other"}},
	} {
		base := &roundTrip{}
		req := request(httpfence.WithLease(t.Context(), named{34, "reports"}), t)
		req.Header = header
		body := &closeCounter{Reader: bytes.NewReader(nil)}
		req.Body = body
		_, err := send(&httpfence.Transport{Base: base}, req)
		require.ErrorIs(t, err, leasing.ErrInvalid, name)
		require.Nil(t, base.got, "nothing was sent")
		require.Equal(t, 1, body.closed, "a RoundTripper closes the body, on errors too")
	}
	base := &roundTrip{}
	req := request(httpfence.WithLease(t.Context(), named{34, "reports"}), t)
	req.Header.Set(httpfence.HeaderToken, "34")
	_, err := send(&httpfence.Transport{Base: base}, req)
	require.NoError(t, err, "the same token does no harm")
	require.Equal(t, []string{"34"}, base.got.Header.Values(httpfence.HeaderToken))
}

func TestTransportRefusesWhatIsNoToken(t *testing.T) {
	for _, token := range fencingtest.BadTokens {
		base := &roundTrip{}
		req := request(t.Context(), t)
		req.Body = nil
		_, err := send(&httpfence.Transport{Base: base, Lease: httpfence.Token(token)}, req)
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.Nil(t, base.got)
	}
}

func TestTransportClosesTheIdleConnectionsOfItsBase(t *testing.T) {
	base := &roundTrip{}
	(&http.Client{Transport: &httpfence.Transport{Base: base}}).CloseIdleConnections()
	require.True(t, base.closed)
}

// Transport, Handler and CheckResponse work together over a real connection, with a redirect.
func TestTransportAndHandlerUnderstandEachOther(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("PUT /reports/{id}", httpfence.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), httpfence.HandlerOptions{
		Resource: func(r *http.Request) string { return r.PathValue("id") },
		Lease:    func(*http.Request) string { return "reports/a b" },
	}))
	mux.Handle("PUT /moved", http.RedirectHandler("/reports/1?key=secret", http.StatusTemporaryRedirect))
	server := httptest.NewServer(mux)
	defer server.Close()
	client := &http.Client{Transport: &httpfence.Transport{Base: server.Client().Transport}}
	defer client.CloseIdleConnections()

	upload := func(lease httpfence.Holder) (string, error) {
		ctx := httpfence.WithLease(t.Context(), lease)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+"/moved", strings.NewReader("hello"))
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		if err := httpfence.CheckResponse(resp); err != nil {
			return "", err
		}
		require.Equal(t, http.StatusOK, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(body), nil
	}
	for _, token := range []int64{33, 34} {
		body, err := upload(named{token, "reports/a b"})
		require.NoError(t, err)
		require.Equal(t, "hello", body)
	}
	_, err := upload(named{33, "reports/a b"})
	host := strings.TrimPrefix(server.URL, "http://")
	require.Equal(t, &fencing.StaleError{Resource: host + "/reports/1", Token: 33, Seen: 34}, err)
}

// The end of a lease ends its requests.
func TestARequestEndsWithItsLease(t *testing.T) {
	began := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	}))
	defer server.Close()
	client := &http.Client{Transport: &httpfence.Transport{Base: server.Client().Transport}}
	defer client.CloseIdleConnections()
	lost := &leasing.LostError{Reason: leasing.LostExpired}
	ctx, cancel := context.WithCancelCause(t.Context())
	req, err := http.NewRequestWithContext(httpfence.WithLease(ctx, httpfence.Token(33)), http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	go func() {
		<-began
		cancel(lost)
	}()
	_, err = client.Do(req) //nolint:bodyclose // there is no response
	require.Error(t, err)
	require.True(t, errors.Is(context.Cause(req.Context()), leasing.ErrLost))
}
