package httpguard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

var errSentAgain = errors.New("the application's HTTP client was about to send the request again, or to another host, and was stopped")

// resendGuard ends a request if, after it was written, net/http is asked for another
// connection, and the request is a write or the connection is to another host: that is a
// repetition or a redirect. Before the request, the application's client may send other
// requests, for example for a credential.
type resendGuard struct {
	at                     string // the host and port of the request
	read                   bool
	stop                   context.CancelFunc
	ours, written, stopped atomic.Bool
}

func newResendGuard(req *http.Request, stop context.CancelFunc) *resendGuard {
	port := req.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[req.URL.Scheme]
	}
	m := method(req)
	return &resendGuard{at: net.JoinHostPort(req.URL.Hostname(), port), read: m == http.MethodGet || m == http.MethodHead, stop: stop}
}

func (f *resendGuard) getConn(to string) {
	f.ours.Store(to == f.at)
	if f.written.Load() && !(f.read && to == f.at) {
		f.stopped.Store(true)
		f.stop()
	}
}

func (f *resendGuard) wroteRequest(info httptrace.WroteRequestInfo) {
	if info.Err == nil && f.ours.Load() {
		f.written.Store(true)
	}
}
