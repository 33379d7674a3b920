package batch

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

type plain struct{ Outcome }

// T124: a panic in code that a batch called ended the process, and a hook that ended its goroutine
// made the callers hang.
func TestTrap_T124_APanicFailsABatch(t *testing.T) {
	for name, breaks := range map[string]func(){"panic": func() { panic("a hook") }, "Goexit": runtime.Goexit} {
		for _, direct := range []time.Duration{0, time.Second} {
			if direct > 0 && name == "Goexit" {
				continue // it ends the caller's own goroutine
			}
			t.Run(name+" "+direct.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					broken := true
					b := New(func(_ context.Context, ops []*plain, _ bool) {
						time.Sleep(time.Millisecond)
						if broken {
							breaks()
						}
					}, direct)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					ops := make([]*plain, 3*MaxOperations)
					var all sync.WaitGroup
					for i := range ops {
						ops[i] = &plain{}
						all.Go(func() { require.NoError(t, b.Do(ctx, ops[i])) })
					}
					all.Wait()
					require.NoError(t, ctx.Err(), "they don't hang")
					for _, op := range ops {
						require.ErrorAs(t, op.Err(), new(*providerkit.PanicError))
						require.False(t, abstractions.NotApplied(op.Err()))
					}
					broken = false
					op := &plain{}
					require.NoError(t, b.Do(ctx, op))
					require.NoError(t, op.Err())
					b.Close()
				})
			})
		}
	}
}
