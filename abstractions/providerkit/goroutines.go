package providerkit

import (
	"context"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/internal/panics"
)

// PanicError reports a panic of code that a provider calls, such as a credential, a hook, a dialer or a
// transport of the application, or a client library. It matches abstractions.ErrUnavailable, and leaves
// the outcome of its call unknown. Package leasing logs its stack.
type PanicError = panics.Error

// Guard runs the function do, and returns its error. A panic of do becomes a *PanicError.
func Guard(do func() error) error { return panics.Guard(do) }

// Go runs the function do in a goroutine, and then calls the function ended with its error. A panic of do,
// or an end of the goroutine by runtime.Goexit, becomes a *PanicError. The kit and all providers start
// goroutines only in this way, since a panic in any other goroutine ends the process. ended must not
// panic.
//
// Go can't guard goroutines that client libraries start. If the application's code panics in one of them, the
// process ends. Examples are the DialContext of the application's http.Transport, the dialer of its etcd
// client, and BeforeConnect, AfterConnect, the dialer and the tracer of its pgxpool.Pool during a connect;
// also the application's own implementation of context.Context, whose methods package context calls.
func Go(do func() error, ended func(error)) { panics.Go(do, ended) }

// AfterFunc is context.AfterFunc for code that may panic. A panic is dropped, since there is no caller to
// report it to.
func AfterFunc(ctx context.Context, do func()) (stop func() bool) {
	return context.AfterFunc(ctx, guardFunc(do))
}

// AfterTime is time.AfterFunc for code that may panic. A panic is dropped, since there is no caller to report
// it to.
func AfterTime(d time.Duration, do func()) *time.Timer { return time.AfterFunc(d, guardFunc(do)) }

func guardFunc(do func()) func() {
	return func() {
		_ = Guard(func() error {
			do()
			return nil
		})
	}
}

// Group starts goroutines that Wait waits for. The zero Group is ready. It is used like a sync.WaitGroup.
type Group struct{ all sync.WaitGroup }

// Go is like the function Go, but ended may be nil.
func (g *Group) Go(do func() error, ended func(error)) {
	g.all.Add(1)
	Go(do, func(err error) {
		defer g.all.Done()
		if ended != nil {
			ended(err)
		}
	})
}

// Wait waits until all goroutines have ended.
func (g *Group) Wait() { g.all.Wait() }
