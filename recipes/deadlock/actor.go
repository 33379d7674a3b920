package deadlock

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// unpublishTimeout bounds the removal of an ended wait from the metadata. Metadata not written by
// then is sent with the next renewals.
const unpublishTimeout = 2 * time.Second

// errLimit ends a wait that has lasted for its WaitLimit.
var errLimit = errors.New("deadlock: wait limit")

// Actor is a sequence of work that holds leases, and waits for one name at a time:
// see the package documentation. It is safe for concurrent use, but a second
// concurrent Acquire is refused.
type Actor struct {
	manager *leasing.Manager
	*shared
}

// shared is the state that an actor shares with the actors that With returns.
type shared struct {
	options    Options
	cycleCount metric.Int64Counter
	acquiring  sync.Mutex

	mu   sync.Mutex
	held map[leasing.Fingerprint]*leasing.Lease
}

// New makes an actor. It starts no goroutine, and needs no Close.
func New(manager *leasing.Manager, options Options) (*Actor, error) {
	if manager == nil {
		return nil, &leasing.InvalidError{Field: "manager", Value: nil, Want: "a leasing.Manager"}
	}
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	cycleCount, err := options.MeterProvider.Meter("github.com/distributedleasing/leasing/recipes/deadlock").Int64Counter("leasing.deadlock.count",
		metric.WithUnit("{cycle}"), metric.WithDescription("Cycles of waits that included an actor."))
	if err != nil {
		return nil, err
	}
	return &Actor{manager, &shared{options: options, cycleCount: cycleCount, held: map[leasing.Fingerprint]*leasing.Lease{}}}, nil
}

// With returns the actor with other options for its leases: see leasing.Manager.With.
func (a *Actor) With(options leasing.AcquireOptions) *Actor {
	return &Actor{a.manager.With(options), a.shared}
}

// Add makes a lease count as held by the actor until the lease ends. Use it for
// leases that were acquired in another way, or belong to a multilease.Set.
func (a *Actor) Add(lease *leasing.Lease) {
	a.mu.Lock()
	a.held[leasing.FingerprintOf(lease.ID())] = lease
	a.mu.Unlock()
	context.AfterFunc(lease.Context(), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.held, leasing.FingerprintOf(lease.ID()))
	})
}

// leases returns the leases that the actor holds.
func (a *Actor) leases() map[leasing.Fingerprint]*leasing.Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.held)
}

// TryAcquire is like Manager.TryAcquire, but also adds the lease to the actor. It does not wait, so it can't
// be part of a cycle.
func (a *Actor) TryAcquire(ctx context.Context, name string) (*leasing.Lease, error) {
	lease, err := a.manager.TryAcquire(ctx, name)
	if err == nil {
		a.Add(lease)
	}
	return lease, err
}

// Acquire is like Manager.Acquire, but also looks for cycles while it waits. With the
// policy Refuse, errors.As finds an *Error in the returned error if the actor had to give way. During
// the wait, Acquire sets the metadata of the leases that the actor holds: do not change that metadata.
// When ctx ends, or AcquireOptions.WaitLimit has passed, Acquire first removes the wait from the
// metadata, which takes at most 2 s.
func (a *Actor) Acquire(ctx context.Context, name string) (*leasing.Lease, error) {
	if !a.acquiring.TryLock() {
		return nil, &leasing.InvalidError{Field: "name", Value: name, Want: "one wait of an actor at a time: make another actor for concurrent work"}
	}
	defer a.acquiring.Unlock()
	limit, manager := a.manager.AcquireOptions().WaitLimit, a.manager
	if limit < 0 || ctx.Err() != nil {
		return a.manager.Acquire(ctx, name) // the error names the option
	}
	if limit > 0 {
		manager = manager.With(leasing.AcquireOptions{WaitLimit: noLimit})
	}
	w := &wait{actor: a, limit: limit, edge: edge{Name: name, Since: time.Now().UTC().Truncate(time.Microsecond), Wait: abstractions.NewID()}, reported: map[string]bool{}}
	waiting, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var watch sync.WaitGroup
	watch.Go(func() {
		if err := w.watch(ctx, watching); err != nil {
			giveUp(err)
		}
	})
	lease, err := manager.Acquire(waiting, name)
	stop()
	watch.Wait()
	if errors.Is(context.Cause(waiting), errLimit) && err != nil {
		return a.TryAcquire(ctx, name) // sends at least one request, whose error names the holder
	}
	if err == nil {
		a.Add(lease)
	}
	return lease, err
}

// noLimit is longer than any wait.
const noLimit = 100 * 365 * 24 * time.Hour

// wait is one wait of an actor.
type wait struct {
	actor     *Actor
	limit     time.Duration // 0: none
	edge      edge
	published []*leasing.Lease // the leases whose metadata contain the edge
	reported  map[string]bool  // the cycles that were reported
}

// watch looks for cycles until the context watching ends, and then removes the wait from the
// metadata. It returns the reason why the wait must end, or nil if the wait has already ended.
func (w *wait) watch(ctx, watching context.Context) error {
	defer w.unpublish(ctx)
	var limit <-chan time.Time
	if w.limit > 0 {
		limit = time.After(w.limit)
	}
	for next := w.actor.options.After; ; {
		select {
		case <-limit:
			return errLimit
		case <-watching.Done():
			return context.Cause(ctx) // nil, unless ctx has ended
		case <-time.After(next):
			var err error
			if next, err = w.check(watching); err != nil {
				return err
			}
		}
	}
}

// check publishes the actor's wait, and looks for a cycle. It returns an *Error if the actor has to
// give way, and the pause before the next check.
//
// A cycle is reported if all its other actors have confirmed the cycle. An actor confirms by a renewal,
// sent while it waits and after it has seen the waits of the others. So when the first of them confirmed
// the cycle, all waits were under way. An actor that gave up its wait while it was cut off confirms
// nothing.
func (w *wait) check(ctx context.Context) (next time.Duration, err error) {
	next = w.actor.options.Every
	own := w.actor.leases()
	if len(own) == 0 {
		return next, nil
	}
	w.publish(ctx, own)
	path := findCycle(ctx, w.actor.manager, w.edge, own)
	if path == nil {
		return next, nil
	}
	found := &Error{path}
	key := found.key()
	if w.edge.Seen != key {
		w.edge.Seen = key
		w.publish(ctx, own)
	}
	if !found.isConfirmed(key) {
		return next / confirmSpeedup, nil
	}
	for i := range path {
		path[i].seen = ""
	}
	if !w.reported[key] {
		w.reported[key] = true
		w.report(ctx, found)
	}
	if w.actor.options.Policy == Refuse && found.Newest() == path[0] {
		return 0, found
	}
	return next, nil
}

// confirmSpeedup is the factor by which an actor checks more often until all others have confirmed its
// cycle.
const confirmSpeedup = 4

// report reports a cycle. Under the policy Break, the actor that has waited the longest also breaks the
// lease of the actor that has waited the least.
func (w *wait) report(ctx context.Context, found *Error) {
	o := &w.actor.options
	w.actor.cycleCount.Add(ctx, 1)
	o.Logger.LogAttrs(ctx, slog.LevelWarn, "leasing: "+found.Error(), slog.String("policy", string(o.Policy)), slog.String("newest", found.Newest().Owner))
	o.Observer(found)
	if o.Policy != Break || found.oldest() != found.Waits[0] {
		return
	}
	newest := found.Newest()
	reason := found.Error()
	reason = strings.ToValidUTF8(reason[:min(len(reason), abstractions.MaxReasonBytes)], "")
	_, err := w.actor.manager.Break(ctx, newest.Holds, leasing.BreakOptions{IfToken: newest.Token, Reason: reason})
	if err != nil && !errors.Is(err, leasing.ErrStale) {
		delete(w.reported, found.key()) // report once more at the next check
	}
}

// publish publishes the wait in the metadata of the actor's leases. A failed write is retried at the
// next check.
func (w *wait) publish(ctx context.Context, own map[leasing.Fingerprint]*leasing.Lease) {
	text := w.edge.encode()
	w.published = w.published[:0]
	for _, lease := range own {
		w.published = append(w.published, lease)
		if metadata := lease.Metadata(); metadata[Key] != text {
			_ = lease.SetMetadata(ctx, withWait(metadata, text))
		}
	}
}

// unpublish removes the wait from the metadata.
func (w *wait) unpublish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unpublishTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, lease := range w.published {
		all.Go(func() {
			if lease.Err() == nil {
				_ = lease.SetMetadata(ctx, withWait(lease.Metadata(), ""))
			}
		})
	}
	all.Wait()
}

// withWait returns a copy of metadata with text as the wait, or without a wait if text is empty.
func withWait(metadata map[string]string, text string) map[string]string {
	changed := map[string]string{}
	maps.Copy(changed, metadata)
	if changed[Key] = text; text == "" {
		delete(changed, Key)
	}
	return changed
}
