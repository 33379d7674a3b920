package providerkit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/distributedleasing/leasing/abstractions"
)

// Driver is the backend-specific half of a provider. It has the methods of
// abstractions.Provider, with fewer duties: requests are valid, contexts have
// not ended and have a deadline (unless Config.Timeout is 0), and errors may be
// the client library's own. An error of package abstractions, such as a
// *HeldError, is passed on unchanged.
//
// A driver may implement abstractions.BatchRenewer, Lister, Waiter, WaiterLister, Pinger
// and HistoryReader too, under the same rules; the items of a batch are valid, and no
// batch is empty. Waiter's context is the caller's own: it may have no deadline, since
// the registration lasts until that context ends. A driver that has an ability only in
// some configurations must have a method As, like a wrapper: see abstractions.As.
//
// Close is called once. Without Config.Detach, calls may still be in flight when Close is called.
type Driver interface {
	abstractions.Provider
	// Classify returns the meaning of an error from the client library. It is not
	// called for errors of package abstractions.
	Classify(err error) Meaning
}

// Config configures a Provider.
type Config struct {
	// Timeout bounds Close, and calls whose context has no deadline. 0 is for a
	// driver that never blocks: contexts are passed on unchanged.
	Timeout time.Duration
	// Detach makes each call on a separate goroutine, for a client library that
	// does not always obey contexts. The call returns when its context ends, while
	// the goroutine may continue. Close ends the contexts of all calls, and waits
	// for those goroutines before it closes the driver.
	Detach bool
}

// Provider is an abstractions.Provider over a driver: see the package
// documentation. It is safe for concurrent use. A provider embeds it and must not
// override its verbs, since As returns the embedded Provider itself.
type Provider struct {
	driver Driver
	caps   abstractions.Capabilities
	config Config

	running context.Context // of detached calls
	stop    context.CancelFunc

	// A provider in memory makes millions of calls a second, so the following fields are used without a lock.
	// A call adds itself before it reads closed, and Close sets closed before it reads calls, so at least one
	// of them sees the other.
	calls  atomic.Int64 // under way
	closed atomic.Bool
	once   sync.Once
	idle   chan struct{} // closed, once, when no call is under way after Close
}

// New makes a Provider, which owns the driver.
func New(d Driver, c Config) *Provider {
	p := &Provider{driver: d, caps: d.Capabilities(), config: c, idle: make(chan struct{})}
	p.caps.HeedsContext = p.caps.HeedsContext || c.Detach
	p.running, p.stop = context.WithCancel(context.Background())
	return p
}

// As finds the optional abilities of the driver.
func (p *Provider) As(target any) bool { return Lend(p, p.driver, target) }

// Format shows the backend's name, for all verbs: a provider may hold secrets.
func (p *Provider) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "provider %s", p.caps.Provider) }

// Capabilities returns the capabilities of the driver, with HeedsContext set if calls are detached.
func (p *Provider) Capabilities() abstractions.Capabilities { return p.caps }

// Acquire makes one attempt to acquire a name: see abstractions.Provider.
func (p *Provider) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if p.config.Detach {
		req.Metadata = maps.Clone(req.Metadata) // the call may outlive its caller
	}
	return run(ctx, p, "acquire", req.Name, req.ID, req.Validate(p.caps), req, Driver.Acquire)
}

// Renew extends a claim: see abstractions.Provider.
func (p *Provider) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	if p.config.Detach {
		req.Metadata = maps.Clone(req.Metadata) // the call may outlive its caller
	}
	return run(ctx, p, "renew", req.Name, req.ID, req.Validate(p.caps), req, Driver.Renew)
}

// Release gives a claim up: see abstractions.Provider.
func (p *Provider) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	_, err := run(ctx, p, "release", req.Name, req.ID, req.Validate(p.caps), req,
		func(d Driver, ctx context.Context, req abstractions.ReleaseRequest) (none struct{}, err error) {
			return none, d.Release(ctx, req)
		})
	return err
}

// Break ends the claim of any holder: see abstractions.Provider.
func (p *Provider) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	return run(ctx, p, "break", req.Name, "", req.Validate(p.caps), req, Driver.Break)
}

// Inspect returns a record: see abstractions.Provider.
func (p *Provider) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	return run(ctx, p, "inspect", req.Name, "", req.Validate(p.caps), req, Driver.Inspect)
}

// List lists records: see abstractions.Lister.
func (p *Provider) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	invalid := cmp.Or(validText("Prefix", req.Prefix), validText("After", req.After))
	return callAbility(ctx, p, "list", "", invalid, req, abstractions.Lister.List)
}

// Ping reports whether the backend answers: see abstractions.Pinger.
func (p *Provider) Ping(ctx context.Context) error {
	_, err := callAbility(ctx, p, "ping", "", nil, struct{}{}, func(d abstractions.Pinger, ctx context.Context, none struct{}) (struct{}, error) {
		return none, d.Ping(ctx)
	})
	return err
}

// History reads the history of a name: see abstractions.HistoryReader.
func (p *Provider) History(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	invalid := abstractions.InspectRequest{Name: req.Name}.Validate(p.caps)
	return callAbility(ctx, p, "history", req.Name, invalid, req, abstractions.HistoryReader.History)
}

// Wait registers a waiter: see abstractions.Waiter.
func (p *Provider) Wait(ctx context.Context, req abstractions.WaitRequest) (wakeups abstractions.Wakeups, err error) {
	if err = p.begin(ctx, req.Validate(p.caps)); err == nil {
		defer p.end()
		err = abstractions.ErrUnsupported
		if d, has := abstractions.As[abstractions.Waiter](p.driver); has {
			wakeups, err = d.Wait(ctx, req)
		}
		err = p.explain(ctx, ctx, err)
	}
	return wakeups, p.wrap("wait", req.Name, req.ID, err)
}

// Waiters lists the waiters for a name: see abstractions.WaiterLister.
func (p *Provider) Waiters(ctx context.Context, req abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
	return callAbility(ctx, p, "waiters", req.Name, req.Validate(p.caps), req, abstractions.WaiterLister.Waiters)
}

func validText(field, text string) error {
	if utf8.ValidString(text) && !strings.ContainsRune(text, 0) {
		return nil
	}
	return &abstractions.InvalidError{Field: field, Value: text, Want: "UTF-8 without NUL"}
}

// callAbility makes a call that needs the ability D of the driver.
func callAbility[D, R, T any](ctx context.Context, p *Provider, op, name string, invalid error, req R, do func(D, context.Context, R) (T, error)) (T, error) {
	d, has := abstractions.As[D](p.driver)
	if !has {
		invalid = abstractions.ErrUnsupported
	}
	return run(ctx, p, op, name, "", invalid, req, func(_ Driver, ctx context.Context, req R) (T, error) { return do(d, ctx, req) })
}

// run makes a call to the driver, unless the request is invalid. id is that of the claim; "" for no claim.
func run[R, T any](ctx context.Context, p *Provider, op, name, id string, invalid error, req R, do func(Driver, context.Context, R) (T, error)) (T, error) {
	var none T
	if err := p.begin(ctx, invalid); err != nil {
		return none, p.wrap(op, name, id, err)
	}
	own := ctx
	if p.config.Timeout > 0 {
		if _, has := ctx.Deadline(); !has {
			var cancel context.CancelFunc
			own, cancel = context.WithTimeout(ctx, p.config.Timeout)
			defer cancel()
		}
	}
	var value T
	var err error
	if p.config.Detach {
		var cancel context.CancelFunc
		own, cancel = context.WithCancel(own)
		defer cancel()
		defer context.AfterFunc(p.running, cancel)()
		value, err = callDetached(own, p, req, do)
	} else {
		defer p.end()
		value, err = do(p.driver, own, req)
	}
	if err != nil {
		return none, p.wrap(op, name, id, p.explain(ctx, own, err))
	}
	return value, nil
}

// begin admits a call. If it returns nil, the call must be followed by end.
func (p *Provider) begin(ctx context.Context, invalid error) error {
	ended := ctx.Err() // the user's code: it may panic
	p.calls.Add(1)
	switch {
	case p.closed.Load():
		invalid = abstractions.ErrClosed
	case ended != nil:
		invalid = MarkNotApplied(ended)
	}
	if invalid != nil {
		p.end()
	}
	return invalid
}

func (p *Provider) end() {
	if p.calls.Add(-1) == 0 && p.closed.Load() {
		p.once.Do(func() { close(p.idle) })
	}
}
