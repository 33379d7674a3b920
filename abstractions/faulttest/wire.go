package faulttest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// Sender sends a request.
type Sender = func(*http.Request) (*http.Response, error)

// Wire handles the requests of a test's client: it sends them to the server, or does not.
type Wire func(req *http.Request, send Sender) (*http.Response, error)

// NewWire returns a client over a transport, and its Wire, which passes requests on until the test sets another Wire. The Wire gets
// copies of requests.
func NewWire(transport http.RoundTripper) (*http.Client, *Wire) {
	w := Wire(func(req *http.Request, send Sender) (*http.Response, error) {
		return send(req)
	})
	return &http.Client{Transport: wireTransport{transport, &w}}, &w
}

type wireTransport struct {
	http.RoundTripper
	wire *Wire
}

func (w wireTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return (*w.wire)(req.Clone(req.Context()), w.RoundTripper.RoundTrip)
}

// Answer makes a server's response with the current date.
func Answer(req *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Request: req, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}},
	}
}

var errReset = errors.New("connection reset by peer")

// WhatWasNotSentIsDefinite (T71) checks that a request counts as not applied after a failed dial, and that its outcome is unknown
// after a lost connection. The function at makes a provider for the server at an address.
func WhatWasNotSentIsDefinite(t *testing.T, at func(addr string) abstractions.Provider, p abstractions.Provider, w *Wire) {
	t.Helper()
	port, err := servertest.FreePort(t.Context())
	require.NoError(t, err)
	*w = func(*http.Request, Sender) (*http.Response, error) { return nil, errReset }
	for unsent, p := range map[bool]abstractions.Provider{true: at(fmt.Sprintf("127.0.0.1:%d", port)), false: p} {
		_, err := p.Acquire(t.Context(), abstractions.AcquireRequest{Name: "n", ID: "a", Owner: "test", TTL: time.Minute})
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.Equal(t, unsent, abstractions.NotApplied(err))
	}
}

// RepliesAreLost (T13) checks that a provider finds out the outcome of a write whose reply was lost.
func RepliesAreLost(t *testing.T, p abstractions.Provider, w *Wire) {
	t.Helper()
	*w = func(req *http.Request, send Sender) (*http.Response, error) {
		response, err := send(req)
		if err == nil && req.Method != http.MethodGet {
			_ = response.Body.Close()
			return nil, errReset
		}
		return response, err
	}
	g, err := p.Acquire(t.Context(), abstractions.AcquireRequest{Name: abstractions.NewID(), ID: "a", Owner: "test", TTL: time.Minute})
	require.NoError(t, err)
	g, err = p.Renew(t.Context(), abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State})
	require.NoError(t, err)
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State}))
}
