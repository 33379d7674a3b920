package cosmoslease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// wire is the transport of all requests of azcosmos.
//
// azcosmos reads the account before its first request and every five minutes. A read takes up
// to a minute, ignores the caller's context, and may run in a goroutine that azcosmos never
// cancels. wire ends these reads after accountTimeout, and when the provider closes. The
// answers to these reads also show whether the account accepts writes in several regions,
// which saves a request.
type wire struct {
	next           httpguard.Doer
	own            *http.Transport // made by newWire; nil if next is the application's
	lifetime       context.Context
	account        *url.URL    // Options.Endpoint
	severalRegions atomic.Bool // several write regions
}

// accountTimeout bounds a read of the account.
const accountTimeout = 5 * time.Second

// newWire wraps a transport; nil means a new transport. The default transport of azcosmos is
// shared by all clients in the process, so its idle connections must not be closed.
func newWire(lifetime context.Context, next policy.Transporter) *wire {
	guarded := httpguard.Wrap(next)
	w := &wire{next: guarded, lifetime: lifetime}
	if own := guarded.Transport(); own != nil {
		w.own = &own.Transport
	}
	return w
}

// Do sends a request and returns the answer, if it comes from the service.
func (w *wire) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	defer context.AfterFunc(w.lifetime, cancel)()
	if isAccount(req) {
		ctx, cancel = context.WithTimeout(ctx, accountTimeout)
		defer cancel()
	}
	response, err := w.next.Do(w.keepInAccount(req.WithContext(ctx)))
	if err != nil {
		return nil, requestError(ctx, req, err)
	}
	body := httpguard.Body(response)
	if !isOwn(req, response, body) {
		return nil, requestError(ctx, req, httpguard.Foreign("Cosmos DB", response, body))
	}
	if isAccount(req) && response.StatusCode == http.StatusOK {
		w.severalRegions.Store(accountOf(body).Several)
	}
	return response, nil
}

// requestError returns the error of a request without an answer, with the error of its context
// if the context has ended. Package net/http reports the context's cause, which is the
// caller's own, so only the text of the cause is kept.
func requestError(ctx context.Context, req *http.Request, err error) error {
	if ended := ctx.Err(); ended != nil {
		err = fmt.Errorf("%w: %v", ended, err)
	}
	if req.Method == http.MethodGet || providerkit.NotSent(err) {
		return err
	}
	return sentError{err}
}

// sentError is the error of a write that may have arrived. azcosmos 1.5.0 treats kernel
// errors such as ETIMEDOUT and EHOSTUNREACH as failures to connect, although an
// established connection can return them too, and sends the write again
// (cosmos_client_retry_policy.go, classifyNetworkError). So sentError hides such
// errors: only the context's errors can be found in its chain.
type sentError struct{ err error }

func (e sentError) Error() string { return e.err.Error() }

// Is matches only the context's errors.
func (e sentError) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.err, target)
}
