package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/proxy"
)

// CallTimeout bounds each call of the suite.
const CallTimeout = 30 * time.Second

// Env has the tools of a check: two clients of one backend, time, names.
type Env struct {
	*require.Assertions
	Backend
	T     *guard
	check string
	P     abstractions.Provider
	Peer  abstractions.Provider
	Caps  abstractions.Capabilities
	// Short is the TTL of leases that checks let run out, Long that of leases that must not run
	// out.
	Short, Long time.Duration
	advanced    atomic.Int64 // by Advance, in nanoseconds
	Slowest     atomic.Int64 // the longest step that a lease may have waited for, in nanoseconds: see RecordStep
	ids         sync.Map     // of the claims: see hidesIDs
}

func newEnv(t *guard, b Backend, check string) *Env {
	e := &Env{Assertions: require.New(t), Backend: b, T: t, check: check}
	if b.Virtual {
		time.Sleep(900 * time.Millisecond) // virtual time begins at a full second, which would hide that a backend truncates its clock
	}
	e.P = e.Open()
	e.Peer = e.OpenPeer()
	e.Caps = e.P.Capabilities()
	e.Short, e.Long = b.ttls(e.Caps)
	return e
}

// Open opens a provider that is closed at the end of the check.
func (e *Env) Open() abstractions.Provider {
	p := e.New(e.T)
	e.NotNil(p, "Harness.New returned nil")
	e.T.Cleanup(func() { p.Close() })
	return p
}

// OpenPeer opens a second client.
func (e *Env) OpenPeer() abstractions.Provider {
	peer := e.NewPeer(e.T, e.P)
	e.NotNil(peer, "Harness.Peer returned nil")
	if peer != e.P {
		e.T.Cleanup(func() { peer.Close() })
	}
	return peer
}

// Clients returns the two clients by their names in messages.
func (e *Env) Clients() map[string]abstractions.Provider {
	return map[string]abstractions.Provider{"same client": e.P, "another client": e.Peer}
}

// Name returns a new name, which no other claim uses.
func (e *Env) Name() string { return "pt/" + e.check + "/" + e.Unique() }

// Unique returns 16 bytes that begin with a letter, since digits alone have no upper case.
func (e *Env) Unique() string {
	return "u" + strings.ReplaceAll(abstractions.NewID(), "-", "")[:15]
}

// LeaveOut ends the check, whose subtest is then skipped: the check does not apply to this
// provider. Only the check's own goroutine may call LeaveOut.
func (e *Env) LeaveOut(why string) {
	e.T.leftOut = why
	runtime.Goexit()
}

// Ability returns an ability of a provider. Without the ability the check is left out.
func Ability[T any](e *Env, p abstractions.Provider) T {
	a, ok := abstractions.As[T](p)
	if !ok {
		e.LeaveOut(fmt.Sprintf("no %s here", reflect.TypeFor[T]().Name()))
	}
	return a
}

// SideBySide calls the function do n times concurrently.
func SideBySide(n int, do func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	all.Wait()
}

// Either returns one of the two clients, in turn.
func (e *Env) Either(i int) abstractions.Provider {
	return []abstractions.Provider{e.P, e.Peer}[i%2]
}

// Call makes one call.
func (e *Env) Call(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(e.T.Context(), CallTimeout)
	defer cancel()
	err := do(ctx)
	e.errorHidesIDs(err)
	return err
}

// Send makes one call of a verb.
func Send[Q, R any](e *Env, verb func(context.Context, Q) (R, error), req Q) (reply R, err error) {
	err = e.Call(func(ctx context.Context) (err error) {
		reply, err = verb(ctx, req)
		return err
	})
	e.hidesIDs(reply)
	return reply, err
}

// Sending returns a function that makes one call of a verb.
func Sending[Q, R any](verb func(context.Context, Q) (R, error), req Q) func(context.Context) error {
	return func(ctx context.Context) error { return Second(verb(ctx, req)) }
}

// Second returns the error of a call.
func Second[T any](_ T, err error) error { return err }

// Releasing returns Release in the form of the other verbs.
func Releasing(p abstractions.Provider) func(context.Context, abstractions.ReleaseRequest) (struct{}, error) {
	return func(ctx context.Context, req abstractions.ReleaseRequest) (none struct{}, err error) {
		return none, p.Release(ctx, req)
	}
}

// RenewInBatch returns a Renew that sends a batch with one item.
func RenewInBatch(batcher abstractions.BatchRenewer) func(context.Context, abstractions.RenewRequest) (abstractions.Grant, error) {
	return func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
		results, err := batcher.RenewBatch(ctx, []abstractions.RenewRequest{req})
		if err != nil || len(results) != 1 {
			return abstractions.Grant{}, cmp.Or(err, fmt.Errorf("%d results of a batch of one", len(results)))
		}
		return results[0].Grant, results[0].Err
	}
}

// Now returns the present time, moved by Advance.
func (e *Env) Now() time.Time { return time.Now().Add(time.Duration(e.advanced.Load())) }

// SleepUntil lets time pass until Now has reached the given time.
func (e *Env) SleepUntil(at time.Time) {
	for {
		left := at.Sub(e.Now())
		if left <= 0 {
			return
		}
		if e.Advance != nil {
			e.Advance(e.P, left)
			e.advanced.Add(int64(left))
			continue
		}
		time.Sleep(left)
	}
}

// Tolerance returns the most by which two correct clocks may disagree over d.
func (e *Env) Tolerance(d time.Duration) time.Duration {
	if e.Virtual {
		return 0
	}
	return d/1000 + 2*time.Millisecond
}

// Retry repeats a call, as package leasing does, while the backend is busy or has not
// answered.
func (e *Env) Retry(call func(ctx context.Context) error) error {
	var err error
	for range 100 {
		if err = e.Call(call); !errors.Is(err, abstractions.ErrUnavailable) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// Await waits until a condition holds, for at most CallTimeout.
func (e *Env) Await(what string, is func() bool) {
	ctx, cancel := context.WithTimeout(e.T.Context(), CallTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			e.FailNow("not in time: " + what)
		}
	}
}

// WaitIdle waits until all immediate work is done.
func (e *Env) WaitIdle() { e.Pause(time.Millisecond) }

// Pause lets real or virtual time pass.
func (e *Env) Pause(d time.Duration) { time.Sleep(d) }

// ProxiedClient is a client behind a proxy.
type ProxiedClient struct {
	abstractions.Provider
	*proxy.Proxy
}

// OpenProxied opens a client behind a proxy of its own. The check needs Harness.HTTP.
func (e *Env) OpenProxied() *ProxiedClient {
	p, before := e.Behind(e.T, e.P)
	e.T.Cleanup(func() { _ = p.Close() })
	return &ProxiedClient{p, before}
}

// RecordStep records how long a step has taken, if no earlier step took longer.
func (e *Env) RecordStep(from time.Time) {
	took := int64(time.Since(from))
	for {
		if was := e.Slowest.Load(); took <= was || e.Slowest.CompareAndSwap(was, took) {
			return
		}
	}
}
