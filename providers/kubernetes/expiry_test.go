package kuberneteslease

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
// and no later than Capabilities.Lateness says, also to who has not watched it.
func TestLeasesEndNeitherEarlyNorLate(t *testing.T) {
	const leases, ttl, slack = 200, 5 * time.Second, 30 * time.Second
	url := named(t)
	holder, watcher, late := open(t, Options{URL: url}), open(t, Options{URL: url}), open(t, Options{URL: url})
	prefix, lock, after := "expiry/"+abstractions.NewID(), sync.Mutex{}, map[*Provider][]time.Duration{}
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() {
			<-time.After(time.Duration(i) * 4 * time.Second / leases)
			waiter := watcher
			req := wish(fmt.Sprint(prefix, i), ttl)
			g, err := holder.Acquire(t.Context(), req)
			sent := time.Now()
			if err == nil {
				_, err = holder.Renew(t.Context(), renewal(g))
			}
			if i%4 == 0 {
				waiter = late
				<-time.After(ttl + time.Second)
			}
			for req.ID = abstractions.NewID(); err == nil || errors.Is(err, abstractions.ErrHeld); <-time.After(50 * time.Millisecond) {
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
	for _, free := range after {
		require.LessOrEqual(t, free[len(free)-1], watcher.Capabilities().Lateness.After(ttl)-ttl+slack)
	}
}

// A holder whose server is killed or stopped, or who is cut off, knows of the loss before
// another has the name.
func TestLossIsToldBeforeTheNameIsFree(t *testing.T) {
	const ttl = 5 * time.Second
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
			s := newServer(t)
			var cut atomic.Bool
			behind, w := through(t, s.options)
			*w = func(req *http.Request, send sender) (*http.Response, error) {
				if cut.Load() {
					<-req.Context().Done()
					return nil, req.Context().Err()
				}
				return send(req)
			}
			providertest.LossIsTold(t, behind, open(t, s.options), ttl, func() {
				if mend := harm(s, &cut); mend != nil {
					<-time.After(2 * ttl)
					mend()
				}
			})
		})
	}
}
