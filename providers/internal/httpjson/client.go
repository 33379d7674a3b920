// Package httpjson is a client of services with JSON over HTTP, for providers without a
// client library.
package httpjson

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// Client sends requests to one service. It is safe for concurrent use.
type Client struct {
	// Slots limits the number of requests in flight to its capacity; nil means no limit.
	// Set it before the first call.
	Slots chan struct{}
	// Service names the service in errors, as in "Consul". HasMark reports whether an answer that is
	// not 2xx has the service's mark; Marked checks the 2xx answers. Without the mark an answer
	// becomes an *httpguard.ForeignError. Set both before the first call.
	Service string
	HasMark func(response *http.Response, body []byte) bool

	base      string
	authorize func(*http.Request) error
	client    *httpguard.Client
	transport *httpguard.Transport // the client's own; nil if the application's client is used
}

// New makes a client for a URL without a slash at its end. authorize may add headers to a
// request. Requests go through users, the application's own client, unless it is nil: see
// httpguard.Wrap.
func New(base string, users *http.Client, authorize func(*http.Request) error) *Client {
	guarded := httpguard.Wrap(users)
	return &Client{base: base, authorize: authorize, client: guarded, transport: guarded.Transport()}
}

// Transport returns the client's own transport, or nil with the application's client. It may
// be changed before the first call.
func (c *Client) Transport() *httpguard.Transport { return c.transport }

// Close closes idle connections, except those of the application's client.
func (c *Client) Close() {
	c.client.CloseIdleConnections()
}

// StatusError is an answer from the service with a status that is not 2xx.
type StatusError struct {
	Status int
	Header http.Header
	Body   []byte

	response *http.Response
}

// Error returns the beginning of the service's answer, on one line.
func (e *StatusError) Error() string {
	response := cmp.Or(e.response, &http.Response{StatusCode: e.Status, Header: e.Header}) //nolint:bodyclose // the body was read
	return httpguard.Said(response, e.Body)
}

// Marked is the JSON of an answer, with a method that checks the service's mark.
type Marked interface {
	// Marked reports whether the answer comes from the service, by its JSON and its header.
	Marked(header http.Header) bool
}

// StatusOf returns the status of the *StatusError in err, or 0 if err contains no *StatusError.
func StatusOf(err error) int {
	if answer := (*StatusError)(nil); errors.As(err, &answer) {
		return answer.Status
	}
	return 0
}

// Do sends a request, with send as JSON unless it is nil, and decodes the answer's JSON
// into the last argument, which may be a Marked. It returns the header of any answer from
// the service, even with a *StatusError.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, send, into any) (http.Header, error) {
	var text []byte
	if send != nil {
		var err error
		if text, err = json.Marshal(send); err != nil {
			return nil, err
		}
	}
	response, err := c.ask(ctx, method, path, query, text) //nolint:bodyclose // the body is in memory
	if err != nil {
		return nil, err
	}
	answer := httpguard.Body(response)
	if response.StatusCode/100 != 2 {
		if c.HasMark != nil && !c.HasMark(response, answer) {
			return nil, httpguard.Foreign(c.Service, response, answer)
		}
		return response.Header, &StatusError{response.StatusCode, response.Header, answer, response}
	}
	marked, may := into.(Marked)
	if json.Unmarshal(answer, into) != nil || may && !marked.Marked(response.Header) {
		return nil, httpguard.Foreign(c.Service, response, answer)
	}
	return response.Header, nil
}

var errBusy = providerkit.NotInTime("not sent, since earlier requests have used up three quarters of its time")

// acquireSlot waits for a slot for up to three quarters of the request's time. If a request
// were sent later, a slow service might still work on it at its deadline. Then the work would
// be wasted and the connection closed, and a new connection costs more than a request.
func (c *Client) acquireSlot(ctx context.Context) (leave func(), err error) {
	if c.Slots == nil {
		return func() {}, nil
	}
	wait := ctx
	if deadline, has := ctx.Deadline(); has {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, time.Until(deadline)/4*3)
		defer cancel()
	}
	select {
	case c.Slots <- struct{}{}:
		return func() { <-c.Slots }, nil
	case <-wait.Done():
		if ended := ctx.Err(); ended != nil {
			return nil, providerkit.MarkNotApplied(fmt.Errorf("%w: not sent: %w", abstractions.ErrUnavailable, ended))
		}
		return nil, errBusy
	}
}

func (c *Client) ask(ctx context.Context, method, path string, query url.Values, text []byte) (*http.Response, error) {
	leave, err := c.acquireSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var body io.Reader
	if text != nil {
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path+"?"+query.Encode(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if text != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err = c.sign(req); err != nil {
		return nil, err
	}
	return c.client.Do(req)
}

// sign adds credentials to a request.
func (c *Client) sign(req *http.Request) error {
	return providerkit.GuardCredentials(nil, func() error { return c.authorize(req) })
}

// Statuses maps the statuses of a service's answers to their meaning. The class says whether a request was
// applied: see [providerkit.Class]. After a status that is not listed, the request may have been applied.
type Statuses map[int]providerkit.Meaning

// Classify returns the meaning of an error, by its status, and by whether the request was sent. A
// redirect, or an answer that is not the service's, leaves the outcome unknown.
func (s Statuses) Classify(err error) (m providerkit.Meaning) {
	var answer *StatusError
	switch {
	case errors.As(err, &answer):
		if m = s[answer.Status]; m.Class == providerkit.Refused {
			m.RetryAfter = httpguard.RetryAfter(answer.Header)
		}
	case providerkit.NotSent(err):
		m.Class = providerkit.Unsent
	}
	return m
}
