package httpfence

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/fencing"
)

// HandlerOptions are the options of Handler. The zero value protects one
// resource, in memory.
type HandlerOptions struct {
	// Fence admits the requests. nil means a new fencing.Gates, which has only the
	// tokens that this process has seen.
	Fence fencing.Fence
	// Resource returns the name of the resource that a request touches; nil
	// means one resource for all requests. Two names for one resource would
	// be two fences, so normalize the path: "/a" and "/a/" may be the same.
	// Check that the resource exists first: see fencing.Gates.
	Resource func(r *http.Request) string
	// Lease returns the name of the lease that protects the resource. A
	// request with a token of another lease is refused. nil, or a result of
	// "", accepts any lease.
	Lease func(r *http.Request) string
	// OnError, unless nil, is called for each request that was refused, with the
	// reason, and for each error that Fence returned after the handler had run. It
	// is called on the request's goroutine; count the *fencing.StaleError values.
	OnError func(r *http.Request, err error)
}

// Handler returns a handler that runs next for requests whose token is not
// stale, and answers the other requests itself. All requests need a token,
// including reads.
//
//	412 Precondition Failed    the token is stale; CheckResponse recognizes it
//	428 Precondition Required  there is no token
//	400 Bad Request            the token is malformed, or of another lease
//	503 Service Unavailable    the check failed, or the request ended before its turn
//
// A refusal is definite: next has not seen the request. The status is 412
// because the token is a condition in the request's header that evaluated to
// false (RFC 9110, 15.5.13), and 428 means that the condition is missing (RFC
// 6585, 3). 409 is for conflicts that the sender may be able to resolve
// before it resubmits the request (RFC 9110, 15.5.10). Clients may retry
// after a 409, but a stale token stays stale. Bodies are RFC 9457's
// problem+json.
//
// With fencing.Gates, requests for one resource run one at a time, so a slow sender
// blocks the others: set the server's timeouts.
func Handler(next http.Handler, options HandlerOptions) http.Handler {
	if options.Fence == nil {
		options.Fence = new(fencing.Gates).Do
	}
	return &handler{next: next, HandlerOptions: options}
}

type handler struct {
	next http.Handler
	HandlerOptions
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := RequestToken(r)
	if err == nil && h.Lease != nil {
		err = checkRequestName(r, h.Lease(r))
	}
	if err != nil {
		status := http.StatusBadRequest
		if len(r.Header.Values(HeaderToken)) == 0 {
			status = http.StatusPreconditionRequired
		}
		h.report(r, err)
		refuse(w, problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: err.Error()})
		return
	}
	ran, err := h.run(w, r, token)
	if err == nil {
		return
	}
	h.report(r, err)
	stale := (*fencing.StaleError)(nil)
	switch {
	case ran:
	case errors.As(err, &stale):
		w.Header().Set(HeaderToken, strconv.FormatInt(stale.Token, 10))
		w.Header().Set(HeaderSeen, strconv.FormatInt(stale.Seen, 10))
		refuse(w, problem{
			Type: staleProblem, Title: "Stale fencing token", Status: http.StatusPreconditionFailed,
			Detail: "a later holder of the lease has been here", Token: stale.Token, Seen: stale.Seen,
		})
	default: // the sender must not see details of a failure behind the fence
		refuse(w, problem{
			Type: "about:blank", Title: http.StatusText(http.StatusServiceUnavailable), Status: http.StatusServiceUnavailable,
			Detail: "the fencing token could not be checked; the request was not run",
		})
	}
}

// run runs the handler inside the fence and reports whether it ran.
func (h *handler) run(w http.ResponseWriter, r *http.Request, token int64) (ran bool, err error) {
	resource := ""
	if h.Resource != nil {
		resource = h.Resource(r)
	}
	err = h.Fence(r.Context(), resource, token, func(ctx context.Context) error {
		if ran {
			return errors.New("httpfence: the Fence ran its function twice")
		}
		ran = true
		if ctx != r.Context() {
			r = r.WithContext(ctx)
		}
		h.next.ServeHTTP(w, r)
		return nil
	})
	if err == nil && !ran {
		err = errors.New("httpfence: the Fence did not run its function, and gave no reason")
	}
	return ran, err
}

func (h *handler) report(r *http.Request, err error) {
	if h.OnError != nil {
		h.OnError(r, err)
	}
}

const staleProblem = "https://pkg.go.dev/github.com/distributedleasing/leasing/fencing#StaleError"

// problem is an answer, in the terms of RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Token  int64  `json:"token,omitempty"` // below 2^53: safe in JSON
	Seen   int64  `json:"seen,omitempty"`
}

func refuse(w http.ResponseWriter, p problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store") // required for 428: RFC 6585, 3
	w.WriteHeader(p.Status)
	_ = providerkit.WriteJSON(w, p) // the sender may have left
}
