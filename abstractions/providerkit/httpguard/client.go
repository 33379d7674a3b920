package httpguard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Doer sends requests. *http.Client is a Doer, and so are the Transporter of azcore and
// the HTTPClient of AWS's SDK.
type Doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// Client sends requests and checks that answers are complete and belong to the requests: see
// the package documentation. It is safe for concurrent use.
type Client struct {
	send    func(*http.Request) (*http.Response, error)
	own     *Transport // nil if the client is the application's
	maxBody int64      // bytes of a body
}

// New makes a client with a transport of its own.
func New() *Client {
	own := NewTransport()
	return &Client{own.RoundTrip, own, MaxBody}
}

// Wrap makes a client that sends requests through the application's client. For
// nil, or a nil *http.Client, it returns New().
//
// An *http.Client is copied and follows no redirect. Every client is watched: a second
// connection for a write, or a connection to another host, ends the request with an error.
// So does a transport that changes the URL or the method of the request.
func Wrap(users Doer) *Client {
	client, plain := users.(*http.Client)
	switch {
	case users == nil, plain && client == nil:
		return New()
	case plain:
		guarded := *client
		guarded.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		users = &guarded
	}
	return &Client{sharedClient(users.Do).Do, nil, MaxBody}
}

// Transport returns the transport that New made, or nil after Wrap. It may be changed before
// the first request.
func (c *Client) Transport() *Transport { return c.own }

// CloseIdleConnections closes the idle connections of a client that New made. It does not affect
// the application's client.
func (c *Client) CloseIdleConnections() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// MaxBody bounds the body of an answer, in bytes. No service that a provider uses sends a
// longer body.
const MaxBody = 64 << 20

// Do sends a request once and reads the whole answer. The answer's body is in memory, and the
// answer's Request is never nil. Closing the body is optional.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	response, err := c.send(req)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the answer was cut off: %w", err)
	}
	if err != nil {
		return nil, redact(req, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.Request == nil: // from a transporter that does not use net/http
		response.Request = req
	case requestChanged(req, response.Request):
		return nil, fmt.Errorf("%w: the answer is to %s %s://%s", errRequestChanged, response.Request.Method, response.Request.URL.Scheme, response.Request.URL.Host)
	}
	if response.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, and has no end
		return nil, Foreign("the service", response, nil)
	}
	body, err := c.readBody(response)
	if err != nil {
		return nil, redact(req, fmt.Errorf("the answer %d was cut off: %w", response.StatusCode, err))
	}
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return nil, &RedirectError{response.StatusCode, response.Header, body}
	}
	response.Body = &bufferedBody{*bytes.NewReader(body), body}
	return response, nil
}

// RoundTrip is Do, for an http.Client.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) { return c.Do(req) }

// Body returns the body of an answer from Do, however much of it was read. It is not a copy.
func Body(response *http.Response) []byte {
	if m, ok := response.Body.(*bufferedBody); ok {
		return m.content
	}
	return nil
}

// bufferedBody is a body that was read to its end.
type bufferedBody struct {
	bytes.Reader
	content []byte
}

func (*bufferedBody) Close() error { return nil }

// readBody reads the body of an answer to its end.
func (c *Client) readBody(response *http.Response) ([]byte, error) {
	if response.Body == nil || response.Body == http.NoBody || response.Request.Method == http.MethodHead {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, c.maxBody+1))
	switch length := response.ContentLength; {
	case err != nil:
		return nil, err
	case int64(len(body)) > c.maxBody:
		return nil, fmt.Errorf("the answer has more than %d bytes", c.maxBody)
	case length > 0 && !response.Uncompressed && int64(len(body)) != length:
		return nil, io.ErrUnexpectedEOF
	}
	return body, nil
}

var errRequestChanged = errors.New("the application's HTTP client has followed a redirect or changed the request")

// requestChanged reports whether an answer belongs to a different request than the one that was
// sent.
func requestChanged(sent, answered *http.Request) bool {
	if answered.Response != nil || method(answered) != method(sent) { // Response is set after a redirect
		return true
	}
	a, b := answered.URL, sent.URL
	return a != b && (a.Scheme != b.Scheme || a.Host != b.Host || a.EscapedPath() != b.EscapedPath() || a.RawQuery != b.RawQuery)
}

func method(req *http.Request) string {
	if req.Method == "" {
		return http.MethodGet
	}
	return req.Method
}

// redact returns err without the URL and the credentials of the request.
func redact(req *http.Request, err error) error {
	if quoting, ok := errors.AsType[*url.Error](err); ok {
		err = quoting.Err
	}
	text := err.Error()
	if shown := oneLine(req, text); shown != text {
		return providerkit.WithText(shown, err)
	}
	return err
}
