// Package httpjson asks services that speak JSON over HTTP, for providers that need no
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

// Client asks one service. It is safe for concurrent use.
type Client struct {
	// Places bounds the requests under way, by its capacity. nil bounds nothing. It is set
	// before the first call.
	Places chan struct{}
	// Service names the service in errors, as in "Consul". Ours reports whether an answer that is
	// not 2xx has the service's mark; the 2xx are checked by Marked. Without the mark an answer is
	// an *httpguard.ForeignError. Both are set before the first call.
	Service string
	Ours    func(response *http.Response, body []byte) bool

	base      string
	authorize func(*http.Request) error
	client    *httpguard.Client
	transport *httpguard.Transport // of our making; nil if the client is the user's
}

// New makes a client of what is under a URL without a slash at its end. authorize may add
// headers to a request. Requests go through the user's client, unless it is nil: see
// httpguard.Wrap.
func New(base string, users *http.Client, authorize func(*http.Request) error) *Client {
	guarded := httpguard.Wrap(users)
	return &Client{base: base, authorize: authorize, client: guarded, transport: guarded.Transport()}
}

// Transport is that of our making; nil if the client is the user's. It may be changed before
// the first call.
func (c *Client) Transport() *httpguard.Transport { return c.transport }

// Close closes idle connections, but not those of a client of the user's.
func (c *Client) Close() {
	c.client.CloseIdleConnections()
}

// StatusError is an answer of the service whose status is not 2xx.
type StatusError struct {
	Status int
	Header http.Header
	Body   []byte

	response *http.Response
}

// Error has the beginning of what the service says, on one line.
func (e *StatusError) Error() string {
	response := cmp.Or(e.response, &http.Response{StatusCode: e.Status, Header: e.Header}) //nolint:bodyclose // the body was read
	return httpguard.Said(response, e.Body)
}

// Marked is the JSON of an answer that knows the service's mark.
type Marked interface {
	// Marked reports whether the answer is the service's, by its JSON and its header.
	Marked(header http.Header) bool
}

// StatusOf is the status of an answer that was an error; 0 if err is none.
func StatusOf(err error) int {
	if answer := (*StatusError)(nil); errors.As(err, &answer) {
		return answer.Status
	}
	return 0
}

// Do sends a request, with send as JSON unless it is nil, and reads the answer's JSON into
// into, which may be Marked. The header is that of any answer of the service, also of a
// *StatusError.
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
		if c.Ours != nil && !c.Ours(response, answer) {
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

var errBusy = providerkit.NotInTime("not sent, since it has waited for those before it for three quarters of its time")

// place waits for a place, for three quarters of the time that the request has. One that is
// sent later is cut off while the service works on it, if that is slow: the work is done in
// vain, the connection is closed, and a new one costs the service more than the request.
func (c *Client) place(ctx context.Context) (leave func(), err error) {
	if c.Places == nil {
		return func() {}, nil
	}
	wait := ctx
	if deadline, has := ctx.Deadline(); has {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, time.Until(deadline)/4*3)
		defer cancel()
	}
	select {
	case c.Places <- struct{}{}:
		return func() { <-c.Places }, nil
	case <-wait.Done():
		if ended := ctx.Err(); ended != nil {
			return nil, providerkit.MarkNotApplied(fmt.Errorf("%w: not sent: %w", abstractions.ErrUnavailable, ended))
		}
		return nil, errBusy
	}
}

func (c *Client) ask(ctx context.Context, method, path string, query url.Values, text []byte) (*http.Response, error) {
	leave, err := c.place(ctx)
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

// Statuses gives the statuses of a service's answers their meaning. By its class a request was applied, or not: see
// [providerkit.Class]. After a status that is not listed the request may have been applied.
type Statuses map[int]providerkit.Meaning

// Classify gives an error its meaning, by its status, and by whether anything was sent. A redirect, and an
// answer that is not the service's, leave the outcome unknown.
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
