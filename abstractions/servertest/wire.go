package servertest

import "net/http"

// Wire is what the requests of a test's client go through: it sends them to the server, or does not.
type Wire func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error)

// NewWire is a client over a transport, and its wire, which changes nothing until the test replaces it. What it gets is a copy.
func NewWire(transport http.RoundTripper) (*http.Client, *Wire) {
	w := Wire(func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		return send(req)
	})
	return &http.Client{Transport: wired{transport, &w}}, &w
}

type wired struct {
	http.RoundTripper
	wire *Wire
}

func (w wired) RoundTrip(req *http.Request) (*http.Response, error) {
	return (*w.wire)(req.Clone(req.Context()), w.RoundTripper.RoundTrip)
}
