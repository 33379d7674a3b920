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
	"strings"
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

// StatusError is an answer whose status is not of the two hundreds.
type StatusError struct {
	Status int
	Header http.Header
	Body   []byte
}

// Error has the beginning of what the service says, on one line.
func (e *StatusError) Error() string {
	said := strings.Join(strings.Fields(strings.ToValidUTF8(string(e.Body[:min(len(e.Body), 300)]), "")), " ")
	return fmt.Sprintf("%d %s: %s", e.Status, http.StatusText(e.Status), cmp.Or(said, "nothing more"))
}

// StatusOf is the status of an answer that was an error; 0 if err is none.
func StatusOf(err error) int {
	if answer := (*StatusError)(nil); errors.As(err, &answer) {
		return answer.Status
	}
	return 0
}

// Do sends a request, with send as JSON unless it is nil, and reads the answer's JSON into
// into. The header is that of any answer, also of a *StatusError.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, send, into any) (http.Header, error) {
	var text []byte
	if send != nil {
		var err error
		if text, err = json.Marshal(send); err != nil {
			return nil, err
		}
	}
	header, answer, err := c.ask(ctx, method, path, query, text)
	if err != nil {
		return header, err
	}
	if err = json.Unmarshal(answer, into); err != nil {
		return header, fmt.Errorf("an answer that is no JSON as expected: %w", err)
	}
	return header, nil
}

var errBusy = fmt.Errorf("%w: not sent, since it has waited for those before it for three quarters of its time", abstractions.ErrUnavailable)

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
		return nil, providerkit.MarkNotApplied(cmp.Or(ctx.Err(), errBusy))
	}
}

func (c *Client) ask(ctx context.Context, method, path string, query url.Values, text []byte) (http.Header, []byte, error) {
	leave, err := c.place(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	var body io.Reader
	if text != nil {
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path+"?"+query.Encode(), body)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", "application/json")
	if text != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err = c.authorize(req); err != nil {
		return nil, nil, providerkit.MarkNotApplied(err)
	}
	response, err := c.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	answer := httpguard.Body(response)
	if response.StatusCode/100 != 2 {
		err = &StatusError{response.StatusCode, response.Header, answer}
	}
	return response.Header, answer, err
}

// Classify says what an error means, by the table that the answers of many services have
// in common, and by whether anything was sent.
func Classify(err error) providerkit.Meaning {
	var answer *StatusError
	if !errors.As(err, &answer) {
		if providerkit.NotSent(err) {
			return providerkit.Meaning{Class: providerkit.Unsent}
		}
		return providerkit.Meaning{}
	}
	m := providerkit.Meaning{}
	switch status := answer.Status; {
	case status == http.StatusTooManyRequests:
		m.Class, m.RetryAfter = providerkit.Refused, httpguard.RetryAfter(answer.Header)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		m.Class = providerkit.Denied
	case status/100 == 3, status == http.StatusBadRequest, status == http.StatusNotFound, status == http.StatusMethodNotAllowed,
		status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity:
		m.Class = providerkit.NotSetUp
	}
	return m
}
