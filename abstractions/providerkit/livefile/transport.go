package livefile

import (
	"crypto/tls"
	"net/http"
	"sync"
)

// Transport sends requests through an http.Transport with the newest files. It is safe for
// concurrent use.
type Transport struct {
	files *TLS
	base  *http.Transport

	mu      sync.Mutex
	of      *tls.Config // the configuration of current
	current *http.Transport
}

// Transport makes a transport with the settings of base, except for TLSClientConfig. When the files
// change it makes another http.Transport, since one that is in use must not change, and closes the
// idle connections of the previous http.Transport. base must not change after the first request.
func (t *TLS) Transport(base *http.Transport) *Transport { return &Transport{files: t, base: base} }

// RoundTrip sends a request, once.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	response, err := t.newest().RoundTrip(req)
	return response, t.files.Explain(err)
}

func (t *Transport) newest() *http.Transport {
	config := t.files.Config()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of != config {
		if t.current != nil {
			t.current.CloseIdleConnections()
		}
		t.current, t.of = t.base.Clone(), config
		t.current.TLSClientConfig = config.Clone()
	}
	return t.current
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil {
		t.current.CloseIdleConnections()
	}
}
