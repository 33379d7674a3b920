package providertest

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
)

// patience bounds each call of the suite.
const patience = 30 * time.Second

// env has the tools of a check: two clients of one backend, time, names.
type env struct {
	*require.Assertions
	t     *guard
	h     Harness
	check string
	p     abstractions.Provider
	peer  abstractions.Provider
	caps  abstractions.Capabilities
	// short leases are watched running out, long ones must not run out.
	short, long time.Duration
	advanced    atomic.Int64 // by Harness.Advance, in nanoseconds
	slowest     atomic.Int64 // the longest step that a lease may have waited for, in nanoseconds: see calm
	ids         sync.Map     // of the claims: see discreet
}

func newEnv(t *guard, h Harness, check string) *env {
	e := &env{Assertions: require.New(t), t: t, h: h, check: check}
	if h.Virtual {
		time.Sleep(900 * time.Millisecond) // virtual time begins at a full second, which would hide that a backend truncates its clock
	}
	e.p = e.open()
	e.peer = e.openPeer()
	e.caps = e.p.Capabilities()
	e.short, e.long = h.ttls(e.caps)
	return e
}

// open opens a provider that is closed at the end of the check.
func (e *env) open() abstractions.Provider {
	p := e.h.New(e.t)
	e.NotNil(p, "Harness.New returned nil")
	e.t.Cleanup(func() { p.Close() })
	return p
}

func (e *env) openPeer() abstractions.Provider {
	peer := e.h.Peer(e.t, e.p)
	e.NotNil(peer, "Harness.Peer returned nil")
	if peer != e.p {
		e.t.Cleanup(func() { peer.Close() })
	}
	return peer
}

// clients returns the two clients by their names in messages.
func (e *env) clients() map[string]abstractions.Provider {
	return map[string]abstractions.Provider{"same client": e.p, "another client": e.peer}
}

// name returns a new name, which no other claim uses.
func (e *env) name() string { return "pt/" + e.check + "/" + e.unique() }

// unique returns 16 bytes, a letter first: digits alone have no upper case.
func (e *env) unique() string {
	return "u" + strings.ReplaceAll(abstractions.NewID(), "-", "")[:15]
}

// leaveOut ends the check, whose subtest is then skipped: it is not about this provider. Only the
// check's own goroutine may call leaveOut.
func (e *env) leaveOut(why string) {
	e.t.leftOut = why
	runtime.Goexit()
}

// ability is one of a provider's. Without it the check is over.
func ability[T any](e *env, p abstractions.Provider) T {
	a, ok := abstractions.As[T](p)
	if !ok {
		e.leaveOut(fmt.Sprintf("no %s here", reflect.TypeFor[T]().Name()))
	}
	return a
}

// sideBySide does something n times at once.
func sideBySide(n int, do func(i int)) {
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

// either is one of the two clients, in turn.
func (e *env) either(i int) abstractions.Provider {
	return []abstractions.Provider{e.p, e.peer}[i%2]
}

// call makes one call.
func (e *env) call(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	err := do(ctx)
	e.discreetError(err)
	return err
}

// send makes one call of a verb.
func send[Q, R any](e *env, verb func(context.Context, Q) (R, error), req Q) (reply R, err error) {
	err = e.call(func(ctx context.Context) (err error) {
		reply, err = verb(ctx, req)
		return err
	})
	e.discreet(reply)
	return reply, err
}

// sending is such a call, to be made.
func sending[Q, R any](verb func(context.Context, Q) (R, error), req Q) func(context.Context) error {
	return func(ctx context.Context) error { return second(verb(ctx, req)) }
}

// second is the error of a call.
func second[T any](_ T, err error) error { return err }

// releasing is Release as a verb like the others.
func releasing(p abstractions.Provider) func(context.Context, abstractions.ReleaseRequest) (struct{}, error) {
	return func(ctx context.Context, req abstractions.ReleaseRequest) (none struct{}, err error) {
		return none, p.Release(ctx, req)
	}
}

// renewInBatch returns a Renew that sends a batch with one item.
func renewInBatch(batcher abstractions.BatchRenewer) func(context.Context, abstractions.RenewRequest) (abstractions.Grant, error) {
	return func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
		results, err := batcher.RenewBatch(ctx, []abstractions.RenewRequest{req})
		if err != nil || len(results) != 1 {
			return abstractions.Grant{}, cmp.Or(err, fmt.Errorf("%d results of a batch of one", len(results)))
		}
		return results[0].Grant, results[0].Err
	}
}

// pages reads all pages of something, each from where the one before has ended.
func pages[T any](e *env, limit int, page func(after string) (items []T, next string, err error)) (all []T) {
	after := ""
	for range 1000 {
		items, next, err := page(after)
		e.NoError(err)
		e.LessOrEqual(len(items), limit, "what is on a page")
		if all = append(all, items...); next == "" {
			return all
		}
		after = next
	}
	e.Fail("the pages do not end")
	return nil
}

// now is the time by which leases are watched.
func (e *env) now() time.Time { return time.Now().Add(time.Duration(e.advanced.Load())) }

// sleepUntil lets leases age until now is at least at.
func (e *env) sleepUntil(at time.Time) {
	for {
		left := at.Sub(e.now())
		if left <= 0 {
			return
		}
		if e.h.Advance != nil {
			e.h.Advance(e.p, left)
			e.advanced.Add(int64(left))
			continue
		}
		time.Sleep(left)
	}
}

// tolerance is the most by which two correct clocks may disagree over d.
func (e *env) tolerance(d time.Duration) time.Duration {
	if e.h.Virtual {
		return 0
	}
	return d/1000 + 2*time.Millisecond
}

// settled repeats a call, like package leasing, while the backend is busy or
// has not answered.
func (e *env) settled(call func(ctx context.Context) error) error {
	var err error
	for range 100 {
		if err = e.call(call); !errors.Is(err, abstractions.ErrUnavailable) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}
