package sequence

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// The lease of a number, and the claim of a cleaner, are leases of package leasing:
// its engine renews them, tracks their trust on both clocks, and emits their events. leaseProvider is
// the Provider below that engine. It sends one request to the store for each request of the
// engine.
type leaseProvider struct {
	// releaseClaim, unless nil, releases a claim by its ID if the caller has not received the grant.
	releaseClaim func(ctx context.Context, id string) error
}

// leaseHandler handles the engine's requests for one number.
type leaseHandler interface {
	// acquire sends the request to the store, and returns the token and the granted duration.
	acquire(ctx context.Context, id string, d time.Duration) (token int64, granted time.Duration, err error)
	renew(ctx context.Context, d time.Duration) (granted time.Duration, err error)
	release(ctx context.Context) error
}

// handlerKey is the context key of the leaseHandler for an Acquire of the engine. The engine acquires a
// lease by its name only, and a name does not contain the request to the store.
type handlerKey struct{}

// shortestLease leaves time for renewals within the engine's margins.
const shortestLease = 20 * time.Millisecond

func (leaseProvider) Capabilities() leasing.Capabilities {
	return leasing.Capabilities{Provider: "sequence", MinTTL: shortestLease, MaxTTL: seqstore.MaxDuration, Granularity: time.Microsecond, Clock: "the store's clock"}
}

// errNoHandler indicates a bug in this package.
var errNoHandler = errors.New("sequence: a request that no stream has made")

func (leaseProvider) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	handler, ok := ctx.Value(handlerKey{}).(leaseHandler)
	if !ok {
		return abstractions.Grant{}, errNoHandler
	}
	token, granted, err := handler.acquire(ctx, req.ID, req.TTL)
	if err != nil {
		return abstractions.Grant{}, err
	}
	return abstractions.Grant{Name: req.Name, ID: req.ID, Token: token, TTL: granted, State: handler}, nil
}

func (leaseProvider) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	handler, ok := req.State.(leaseHandler)
	if !ok {
		return abstractions.Grant{}, errNoHandler
	}
	granted, err := handler.renew(ctx, req.TTL)
	if late := (*LateCommitError)(nil); errors.As(err, &late) {
		reason := leasing.LostTaken
		if late.Expired {
			reason = leasing.LostExpired
		} else if !late.Entry.State.Open() {
			reason = leasing.LostGone
		}
		err = &leasing.LostError{Reason: reason, Err: err}
	}
	if err != nil {
		return abstractions.Grant{}, err
	}
	return abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: granted, State: handler}, nil
}

// Release gives back a cleaner's claim even if the claim's request was cut off: the engine repeats the release until that request
// can no longer arrive. A number whose grant was not received is not released, since a second request of the same operation may
// have received the same number. Its lease runs out, and a cleaner claims the number.
func (l leaseProvider) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	if handler, ok := req.State.(leaseHandler); ok {
		return handler.release(ctx)
	}
	if l.releaseClaim == nil {
		return nil
	}
	return l.releaseClaim(ctx, req.ID)
}

func (leaseProvider) Break(context.Context, abstractions.BreakRequest) (abstractions.BreakResult, error) {
	return abstractions.BreakResult{}, leasing.ErrUnsupported
}

func (leaseProvider) Inspect(context.Context, abstractions.InspectRequest) (abstractions.Record, error) {
	return abstractions.Record{}, leasing.ErrUnsupported
}

func (leaseProvider) Close() error { return nil }

// leaseName returns the engine's name for a lease of a stream. The engine's metrics use only the
// part before the last slash.
func leaseName(stream, what string) string { return "sequence/" + url.PathEscape(stream) + "/" + what }

// numberLease implements leaseHandler for a number.
type numberLease struct {
	store interface {
		Lease(ctx context.Context, req seqstore.LeaseRequest) (Entry, error)
		Renew(ctx context.Context, req seqstore.RenewRequest) (time.Duration, error)
		Release(ctx context.Context, req seqstore.ReleaseRequest) error
	}
	req   seqstore.LeaseRequest
	joint *jointLease // unless nil, joins this lease to the commit of another number
	entry atomic.Pointer[Entry]
	// closed is set when the number has its result: then there is nothing to renew or release.
	// givenUp is set when its holder wants a gap; otherwise no release is sent, and the lease runs
	// out.
	closed, givenUp atomic.Bool
}

// acquire trusts only the requested duration. Recovery mode may grant more, and an earlier request of
// the same operation may have set a later end.
func (n *numberLease) acquire(ctx context.Context, _ string, d time.Duration) (int64, time.Duration, error) {
	req := n.req
	req.Duration = d
	e, err := n.issue(ctx, req)
	if err != nil {
		return 0, 0, err
	}
	n.entry.Store(&e)
	return e.Token, d, nil
}

// errNotIssued says that a commit has issued no number. It matches leasing.ErrReleased so that the engine does not retry.
var errNotIssued = fmt.Errorf("sequence: the number was not issued: %w", leasing.ErrReleased)

// issue sends the request to the store, or passes it to the commit of the previous number.
func (n *numberLease) issue(ctx context.Context, req seqstore.LeaseRequest) (Entry, error) {
	if n.joint == nil {
		return n.store.Lease(ctx, req)
	}
	select {
	case n.joint.requests <- req:
	case <-ctx.Done():
		return Entry{}, ctx.Err()
	}
	select {
	case e, ok := <-n.joint.issued:
		if !ok {
			return e, errNotIssued
		}
		return e, nil
	case <-ctx.Done():
		return Entry{}, ctx.Err()
	}
}

func (n *numberLease) renew(ctx context.Context, d time.Duration) (time.Duration, error) {
	if n.closed.Load() {
		return d, nil
	}
	e := n.entry.Load()
	granted, err := n.store.Renew(ctx, seqstore.RenewRequest{Stream: e.Stream, Seq: e.Seq, Token: e.Token, Duration: d})
	late := (*LateCommitError)(nil)
	if errors.As(err, &late) && late.Entry.State == Committed && late.Entry.Token == e.Token {
		return d, nil // closed by our own commit, whose reply has not yet arrived
	}
	return granted, err
}

func (n *numberLease) release(ctx context.Context) error {
	if n.closed.Load() || !n.givenUp.Load() {
		return nil
	}
	e := n.entry.Load()
	return n.store.Release(ctx, seqstore.ReleaseRequest{Stream: e.Stream, Seq: e.Seq, Token: e.Token})
}

// jointLease joins the lease of a number to the commit of another number. The engine reads its clocks, and then sends its
// request on requests. The commit sends the new number on issued, or closes issued if the store has issued no number.
type jointLease struct {
	requests chan seqstore.LeaseRequest
	issued   chan Entry
}
