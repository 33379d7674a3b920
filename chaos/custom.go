package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// CustomFault is a fault of your own: see Fault.Custom. It must be safe for concurrent
// use.
type CustomFault interface {
	// Inject runs in place of an operation, and next performs the operation. A fault may wait,
	// return an error before next, call next and return an error afterwards, or call next more
	// than once. It should return soon after ctx ends. Provider.Close does not interrupt a fault
	// that is waiting.
	//
	// If Inject returns an error of its own, the caller gets it as an InjectedError. The error
	// should match the error of package leasing that a backend would return, such as
	// leasing.ErrThrottled. If it matches none, if ctx has ended, or if it promises that nothing
	// was applied although next has applied something, then the outcome is unknown:
	// leasing.ErrUnavailable.
	//
	// If Inject returns nil, or the error from its last call to next, the caller gets the answer to
	// that call. If Inject returns nil and has not called next, the wrapper then performs the
	// operation. A panic counts in Report.Panics, and the outcome is unknown.
	//
	// next sends the request with the context that it gets. The registration of a Wait ends with
	// that context. After Inject has returned, next does nothing and returns leasing.ErrClosed.
	Inject(ctx context.Context, o Operation, next func(ctx context.Context) error) error
}

// CustomPolicy is a policy of your own: see Policy.Custom. It must be safe for
// concurrent use.
type CustomPolicy interface {
	// Picks reports whether the fault happens to an operation. It is called once for each
	// operation that the other fields of Policy choose, and must be fast. A seed repeats a run
	// if the result depends only on the operation, and not on its Attempt and Since, which
	// depend on time. A panic is counted in Report.Panics and treated as false.
	Picks(o Operation) bool
}

// Operation describes an operation to a CustomFault and a CustomPolicy.
type Operation struct {
	Rule        string
	Op          Op
	Name        string                   // "" for OpList, OpPing and OpRenewBatch
	Fingerprint abstractions.Fingerprint // identifies the claim of the operation
	Owner       string                   // "" if not known
	Nth         int                      // as in Injection
	Attempt     int                      // as in Injection
	Since       time.Duration            // since Wrap or Reset
	// Rand is this operation's source of random numbers, and is not safe for
	// concurrent use. Its numbers depend on the seed, the rule and the operation
	// alone: see the package documentation. The numbers of the fault are independent
	// of the policy's.
	Rand *rand.Rand
}

// forRule returns the description of an operation for a rule's custom code.
func (o operation) forRule(r *rule, since time.Duration, seed1, seed2 uint64) Operation {
	return Operation{
		Rule: r.Name, Op: o.op, Name: o.name, Fingerprint: abstractions.FingerprintOf(o.id), Owner: o.owner,
		Nth: o.nth, Attempt: o.attempt, Since: since, Rand: rand.New(rand.NewPCG(seed1, seed2)), //nolint:gosec // repeatable
	}
}

// callPolicy calls a policy. Caller holds mu, which callPolicy unlocks while the policy decides.
func (p *Provider) callPolicy(policy CustomPolicy, o Operation) (picks bool) {
	p.mu.Unlock()
	defer p.mu.Lock()
	p.protect(func() { picks = policy.Picks(o) })
	return picks
}

// runCustom runs a CustomFault in place of an operation.
func (p *Provider) runCustom(ctx context.Context, o operation, f *occurrence, apply request) (any, error) {
	e := &effect{apply: apply}
	var err error
	panicked := p.protect(func() { err = f.fault().Custom.Inject(ctx, f.custom, e.next) })
	end := e.close()
	switch {
	case panicked != nil && end.panicked != nil:
		panic(end.panicked) // the panic of the provider, not of the fault
	case panicked != nil:
		err = fmt.Errorf("%w: the fault panicked: %v", abstractions.ErrUnavailable, panicked)
	case err == nil && !end.called:
		return apply(ctx)
	case err == nil && errors.Is(end.err, errNoAnswer):
		err = end.err
	case err == nil || isSame(err, end.err):
		if err = repeatError(end.applied, end.err); err == nil {
			return end.answer, end.err
		}
	case ctx.Err() != nil:
		err = p.interrupted(ctx, true)
	case end.applied && !mayHaveApplied(err):
		err = fmt.Errorf("%w: applied, and then: %v", abstractions.ErrUnavailable, err)
	case mayHaveApplied(err) && !errors.Is(err, abstractions.ErrUnavailable):
		err = fmt.Errorf("%w: %w", abstractions.ErrUnavailable, err)
	}
	return nil, p.injectedError(o, f, err)
}

// errNoAnswer is the result of a call to next that has not returned, or has panicked.
var errNoAnswer = fmt.Errorf("%w: the fault has returned without the answer", abstractions.ErrUnavailable)

// isSame reports whether two errors are identical, without the panic of == for types that are not
// comparable.
func isSame(a, b error) bool {
	return b != nil && reflect.ValueOf(a).Comparable() && a == b //nolint:errorlint // identity, not a match of wrapped errors
}

// effect performs the operation for the next function of a CustomFault, and records the outcome.
type effect struct {
	apply request

	mu   sync.Mutex // guards the fields below
	over bool
	outcome
}

// outcome holds the results of the calls to next.
type outcome struct {
	called   bool
	applied  bool // one of the calls may have had an effect
	answer   any  // of the last call
	err      error
	panicked any // by the provider
}

// close returns the outcome. Later calls to next fail.
func (e *effect) close() outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	e.applied = e.applied || e.called && mayHaveApplied(e.err)
	return e.outcome
}

// next applies the operation.
func (e *effect) next(ctx context.Context) error {
	if !e.begin() {
		return abstractions.ErrClosed
	}
	defer func() {
		if value := recover(); value != nil {
			e.mu.Lock()
			e.panicked = value
			e.mu.Unlock()
			panic(value)
		}
	}()
	answer, err := e.apply(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer, e.err = answer, err
	return err
}

// begin begins a call to next. It reports false if Inject has returned.
func (e *effect) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return false
	}
	e.applied = e.applied || e.called && mayHaveApplied(e.err)
	e.called, e.err = true, errNoAnswer
	return true
}

// protect calls code of the application. It counts, logs and returns a panic.
func (p *Provider) protect(call func()) (panicked any) {
	defer func() {
		if panicked = recover(); panicked == nil {
			return
		}
		p.mu.Lock()
		p.report.Panics++
		p.mu.Unlock()
		defer func() { _ = recover() }() // a panic of the logger can't be reported anywhere
		p.options.Logger.LogAttrs(context.Background(), slog.LevelError, "leasing: code of a chaos test panicked",
			slog.Any("panic", panicked), slog.String("stack", string(debug.Stack())))
	}()
	call()
	return nil
}
