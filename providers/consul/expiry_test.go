package consullease

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
)

// A lease whose holder died is free no earlier than its TTL after its last write was sent,
// and no later than Capabilities.Lateness says to who has watched it. Who comes when it has
// run out waits as long again.
func TestLeasesEndNeitherEarlyNorLate(t *testing.T) {
	const leases, ttl, slack = 268, 3 * time.Second, 20 * time.Second
	url := named(t)
	holder, watcher, late := open(t, Options{URL: url}), open(t, Options{URL: url}), open(t, Options{URL: url})
	prefix, lock, after := "expiry/"+abstractions.NewID(), sync.Mutex{}, map[*Provider][]time.Duration{}
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() {
			<-time.After(time.Duration(i) * ttl / leases)
			waiter := watcher
			req := wish(fmt.Sprint(prefix, i), ttl)
			sent := time.Now()
			g, err := holder.Acquire(t.Context(), req)
			if err != nil {
				t.Error(err)
				return
			}
			again := time.Now()
			if _, lost := holder.Renew(t.Context(), renewal(g)); lost == nil {
				sent = again
			}
			if i%4 == 0 {
				waiter = late
				<-time.After(ttl + time.Second)
			}
			for req.ID = abstractions.NewID(); err == nil || errors.Is(err, abstractions.ErrHeld) || errors.Is(err, abstractions.ErrUnavailable); <-time.After(50 * time.Millisecond) {
				if _, err = waiter.Acquire(t.Context(), req); err == nil {
					lock.Lock()
					defer lock.Unlock()
					after[waiter] = append(after[waiter], time.Since(sent)-ttl)
					return
				}
			}
			t.Error(err)
		})
	}
	all.Wait()
	for waiter, what := range map[*Provider]string{watcher: "have watched", late: "come late"} {
		free := after[waiter]
		require.NotEmpty(t, free)
		slices.Sort(free)
		t.Logf("%d leases of %v were free %v to %v after their TTL, median %v, to those who %s", len(free), ttl, free[0], free[len(free)-1], free[len(free)/2], what)
		require.GreaterOrEqual(t, free[0], time.Duration(0))
	}
	lateness := watcher.Capabilities().Lateness.After(ttl) - ttl
	require.LessOrEqual(t, after[watcher][len(after[watcher])-1], lateness+slack)
	require.GreaterOrEqual(t, after[late][0], ttl, "it has watched that long")
	require.LessOrEqual(t, after[late][len(after[late])-1], lateness+ttl+time.Second+slack)
}

// A holder whose server is killed or stopped, or who is cut off, knows of the loss before
// another has the name.
func TestLossIsToldBeforeTheNameIsFree(t *testing.T) {
	const ttl = 3 * time.Second
	for name, harm := range map[string]func(s *server, cut *atomic.Bool) (mend func()){
		"cut off": func(_ *server, cut *atomic.Bool) func() {
			cut.Store(true)
			return nil
		},
		"paused": func(s *server, _ *atomic.Bool) func() {
			require.NoError(s.t, s.Pause())
			return func() { require.NoError(s.t, s.Resume()) }
		},
		"killed": func(s *server, _ *atomic.Bool) func() {
			s.Kill()
			return s.start
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, "")
			var cut atomic.Bool
			behind, w := through(t, Options{Address: s.address})
			*w = func(req *http.Request, send sender) (*http.Response, error) {
				if cut.Load() {
					<-req.Context().Done()
					return nil, req.Context().Err()
				}
				return send(req)
			}
			providertest.LossIsTold(t, behind, open(t, Options{Address: s.address}), ttl, func() {
				if mend := harm(s, &cut); mend != nil {
					<-time.After(2 * ttl)
					mend()
				}
			})
		})
	}
}
