package sqllease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Store is the low-level access to the tables: each method makes one attempt
// and says what the database's clock read. [Provider] is a thin layer over it.
// Use it directly for leases without a manager, who would renew them and tell
// of their loss. It is safe for concurrent use.
//
// Mind that ServerTime and ExpiresAt are the database's: never compare them
// with this machine's clock. A holder counts the TTL from the instant before
// it sent the request.
type Store struct {
	backend      backend
	capabilities abstractions.Capabilities
	record       recording

	timeout                     time.Duration
	retention, historyRetention time.Duration

	ready  atomic.Bool // the tables were checked
	closed atomic.Bool

	releases atomic.Int64
	sweeping sync.Mutex
	swept    string // the last name that sweepALittle looked at
}

// Claim is a lease as the database granted it.
type Claim struct {
	Name  string
	ID    string
	Token int64
	TTL   time.Duration
	// ServerTime is the database's clock when the claim was granted or renewed.
	ServerTime time.Time
	// ExpiresAt, by the same clock, is when others may take the name unless
	// the claim is renewed; zero for an infinite lease.
	ExpiresAt time.Time
}

// Released says what a release did.
type Released struct {
	// WasHeld says that the claim held the name until now. Otherwise it had
	// run out, was taken over, or never was.
	WasHeld    bool
	ServerTime time.Time
}

// Broken says what a Break met.
type Broken struct {
	abstractions.BreakResult
	ServerTime time.Time
}

// RenewedClaim is one item of RenewBatch: a claim or an error, as Renew
// returns them.
type RenewedClaim struct {
	Claim Claim
	Err   error
}

// Acquire makes one attempt to take a name: see leasing.Provider.
func (s *Store) Acquire(ctx context.Context, req abstractions.AcquireRequest) (Claim, error) {
	var claim Claim
	err := s.call(ctx, "acquire", req.Name, func(ctx context.Context) error {
		if err := req.Validate(s.capabilities); err != nil {
			return err
		}
		done, err := s.backend.apply(ctx, op{
			name: req.Name, take: &req,
			rule: func(r *row) change { return r.acquire(req) },
		})
		if err = first(err, done.err); err == nil {
			claim = done.after.claim(req.ID, req.TTL)
		}
		return err
	})
	return claim, err
}

// Renew extends a claim by req.TTL from now: see leasing.Provider. A claim that
// has run out is lost, even if nobody has taken the name since.
func (s *Store) Renew(ctx context.Context, req abstractions.RenewRequest) (Claim, error) {
	var claim Claim
	err := s.call(ctx, "renew", req.Name, func(ctx context.Context) error {
		if err := req.Validate(s.capabilities); err != nil {
			return err
		}
		verdicts, err := s.backend.renew(ctx, []abstractions.RenewRequest{req}, true)
		if err != nil {
			return err
		}
		claim, err = verdicts[0].claim(req)
		return err
	})
	return claim, err
}

// Release gives a claim up and refuses its ID from then on: see leasing.Provider.
func (s *Store) Release(ctx context.Context, req abstractions.ReleaseRequest) (Released, error) {
	var released Released
	err := s.call(ctx, "release", req.Name, func(ctx context.Context) error {
		if err := req.Validate(s.capabilities); err != nil {
			return err
		}
		done, err := s.backend.apply(ctx, op{
			name: req.Name, give: &req,
			rule: func(r *row) change { return r.release(req.ID) },
		})
		if err != nil {
			return err
		}
		released = Released{WasHeld: done.wake, ServerTime: done.after.now}
		s.sweepALittle(ctx)
		return nil
	})
	return released, err
}

// Break ends somebody's claim: see leasing.Provider.
func (s *Store) Break(ctx context.Context, req abstractions.BreakRequest) (Broken, error) {
	var broken Broken
	err := s.call(ctx, "break", req.Name, func(ctx context.Context) error {
		if err := req.Validate(s.capabilities); err != nil {
			return err
		}
		var remaining time.Duration
		done, err := s.backend.apply(ctx, op{name: req.Name, rule: func(r *row) (c change) {
			c, remaining = r.end(req)
			return c
		}})
		if err = first(err, done.err); err == nil {
			broken.BreakResult = abstractions.BreakResult{WasHeld: done.before.held(), Token: done.before.token, Remaining: remaining}
			broken.ServerTime = done.after.now
		}
		return err
	})
	return broken, err
}

// Inspect returns the record of a name and writes nothing. Its Now is the
// database's clock.
func (s *Store) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	var record abstractions.Record
	err := s.call(ctx, "inspect", req.Name, func(ctx context.Context) error {
		if err := req.Validate(s.capabilities); err != nil {
			return err
		}
		found, err := s.backend.read(ctx, req.Name)
		record = found.record()
		return err
	})
	if err != nil {
		return abstractions.Record{}, err
	}
	return record, nil
}

// Ping makes the cheapest request there is, after it has checked, once, that
// the tables are there.
func (s *Store) Ping(ctx context.Context) error {
	return s.call(ctx, "ping", "", s.backend.ping)
}

// Close ends the store, and closes what Open opened; what the user brought
// along stays open. Calls under way end first. Every later one returns
// leasing.ErrClosed. Closing again does nothing.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.backend.close()
}

// call runs one attempt under a bounded context, and explains its error.
func (s *Store) call(ctx context.Context, verb, name string, do func(context.Context) error) error {
	ctx, done, err := s.open(ctx)
	if err != nil {
		return s.wrap(verb, name, err)
	}
	defer done()
	if err = s.check(ctx); err == nil {
		err = do(ctx)
	}
	return s.failed(ctx, verb, name, err)
}

// open is the first question of every method. The context it returns has a
// deadline.
func (s *Store) open(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.closed.Load() {
		return ctx, nil, abstractions.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return ctx, nil, err
	}
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	return ctx, cancel, nil
}

// failed says what went wrong on the way to the database, if anything.
func (s *Store) failed(ctx context.Context, verb, name string, err error) error {
	return s.wrap(verb, name, explain(ctx, s.backend, err))
}

func (s *Store) wrap(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	return &abstractions.Error{Op: verb, Provider: s.capabilities.Provider, Name: name, Err: err}
}

// first returns the first error there is.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *row) claim(id string, ttl time.Duration) Claim {
	return Claim{Name: r.name, ID: id, Token: r.token, TTL: ttl, ServerTime: r.now, ExpiresAt: r.expiresAt()}
}

// errBusy: the row was left out because another transaction has it locked.
var errBusy = errors.New("another transaction has the row locked")

// claim is what the verdict means for the claimant.
func (v *verdict) claim(req abstractions.RenewRequest) (Claim, error) {
	if v.renewed {
		return v.row.claim(req.ID, req.TTL), nil
	}
	if !v.known {
		return Claim{}, fmt.Errorf("%w: %w", abstractions.ErrUnavailable, errBusy)
	}
	if err := v.lost(req); err != nil {
		return Claim{}, err
	}
	return Claim{}, fmt.Errorf("%w: the row changed while it was read", abstractions.ErrUnavailable)
}
