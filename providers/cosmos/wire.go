package cosmoslease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// wire is what all of azcosmos' requests go through.
//
// azcosmos looks at the account before its first request and every five minutes,
// for up to a minute, heeding nobody's context, and partly in goroutines that
// nothing ends. Here that ends with accountTimeout, and with the provider. And here
// it is seen whether the account takes writes in several regions, without a request
// of our own.
type wire struct {
	next     policy.Transporter
	lifetime context.Context
	own      *http.Transport // of our making; nil if next is the user's
	several  atomic.Bool     // write regions
}

// accountTimeout bounds a look at the account.
const accountTimeout = 5 * time.Second

// newWire wraps a transport; nil stands for one of our own. That of azcosmos is shared by
// all clients, and nobody may close its idle connections.
func newWire(lifetime context.Context, next policy.Transporter) *wire {
	w := &wire{next: next, lifetime: lifetime}
	if next == nil {
		w.own = providerkit.NewTransport()
		w.next = &http.Client{Transport: w.own}
	}
	return w
}

// Do makes a request, and reads all of the reply. Replies are small.
func (w *wire) Do(req *http.Request) (*http.Response, error) {
	account := req.Method == http.MethodGet && len(req.URL.Path) <= 1
	ctx, cancel := bound(req.Context(), account)
	defer cancel()
	defer context.AfterFunc(w.lifetime, cancel)()
	response, err := w.next.Do(req.WithContext(ctx))
	if err != nil {
		return nil, broke(ctx, req, err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, broke(ctx, req, fmt.Errorf("reading the reply: %w", err))
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if account && response.StatusCode == http.StatusOK {
		w.account(body)
	}
	return response, nil
}

// broke is the error of a request that has no answer.
func broke(ctx context.Context, req *http.Request, err error) error {
	err = withEnd(ctx, err)
	if req.Method == http.MethodGet || providerkit.NotSent(err) {
		return err
	}
	return sentError{err}
}

// withEnd is the error of a request, and of its context if that has ended. Package
// net/http reports the context's cause, which is the caller's own: it is text alone.
func withEnd(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %v", ctx.Err(), err)
}

// sentError is the error of a write that may have arrived. azcosmos 1.5.0 takes
// errors of the kernel's such as ETIMEDOUT and EHOSTUNREACH, which a connection that
// is established has as well, for those of one that could not be, and sends the write
// again (cosmos_client_retry_policy.go, classifyNetworkError). So they are hidden
// from it: only the context's errors can be found in its chain.
type sentError struct{ err error }

func (e sentError) Error() string { return e.err.Error() }

// Is finds the context's errors.
func (e sentError) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.err, target)
}

func bound(ctx context.Context, account bool) (context.Context, context.CancelFunc) {
	if account {
		return context.WithTimeout(ctx, accountTimeout)
	}
	return context.WithCancel(ctx)
}

// account takes note of what the service says of the account:
// learn.microsoft.com/rest/api/cosmos-db/get-database-account.
func (w *wire) account(body []byte) {
	var properties struct {
		Several bool `json:"enableMultipleWriteLocations"`
	}
	if json.Unmarshal(body, &properties) == nil {
		w.several.Store(properties.Several)
	}
}

// close closes connections that are not in use.
func (w *wire) close() {
	if w.own != nil {
		w.own.CloseIdleConnections()
	}
}

// tokenTimeout bounds a request for a token: as long as azidentity 1.15.0
// allows the slowest of its credentials, those that run a program (cliTimeout).
const tokenTimeout = 10 * time.Second

// boundedCredential bounds the requests for tokens of another one. azcosmos asks for
// one when it looks at the account, heeding nobody's context for a minute, and all
// callers wait for the one who asks: a request that hangs would hang them all, and
// Close.
type boundedCredential struct {
	next     azcore.TokenCredential
	lifetime context.Context // of the provider
}

// GetToken asks for a token.
func (c boundedCredential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	defer context.AfterFunc(c.lifetime, cancel)()
	token, err := c.next.GetToken(ctx, o)
	return token, withEnd(ctx, err)
}
