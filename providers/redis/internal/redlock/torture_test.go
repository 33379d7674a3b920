package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// tortureTime is the duration of the torture.
const tortureTime = 20 * time.Second

// Six claims at a time, from three processes, compete for a name, while the nodes in turn are
// killed, are frozen, or lose their data. By a single clock, no two claims trust their leases at
// the same time, and each token is higher than the one before.
func TestTrap_T18_RedlockTorture(t *testing.T) {
	t.Parallel()
	const longest = 600 * time.Millisecond
	r := newRing(t, 3, Options{MaxTTL: longest})
	r.snapshot()
	history := &history{}
	ctx, cancel := context.WithTimeout(t.Context(), tortureTime)
	defer cancel()
	var all sync.WaitGroup
	for range 3 {
		p := r.process()
		for range 2 {
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					history.add(p.live(ctx, "a", longest))
				}
			})
		}
	}
	faults := r.disturb(ctx)
	all.Wait()
	t.Logf("%d leases under %v", len(history.terms), faults)
	history.check(t)
	require.Greater(t, len(history.terms), 10)
}

// term is the time for which a claim trusted its lease.
type term struct {
	id         string
	token      int64
	start, end time.Time
}

type history struct {
	mu    sync.Mutex
	terms []term
}

func (h *history) add(terms ...term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range terms {
		if t.token != 0 {
			h.terms = append(h.terms, t)
		}
	}
}

func (h *history) check(t *testing.T) {
	slices.SortFunc(h.terms, func(a, b term) int { return a.start.Compare(b.start) })
	for i := 1; i < len(h.terms); i++ {
		before, next := h.terms[i-1], h.terms[i]
		require.False(t, next.start.Before(before.end), "%v begins before %v ends", next, before)
		require.Greater(t, next.token, before.token, "%v after %v", next, before)
	}
}

// live acquires the name once, keeps it for a while, and releases the name or leaves it held.
func (p *process) live(ctx context.Context, name string, ttl time.Duration) (held term) {
	id := abstractions.NewID()
	var sent time.Time
	g, err := abstractions.Grant{}, errors.New("not yet")
	for err != nil {
		if ctx.Err() != nil {
			return term{}
		}
		sent = time.Now()
		g, err = p.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: "me", TTL: ttl})
		if err != nil {
			<-time.After(rand.N(20 * time.Millisecond))
		}
	}
	held = term{id: id, token: g.Token, start: time.Now(), end: sent.Add(validity(ttl))}
	for range rand.IntN(6) {
		<-time.After(rand.N(ttl / 3))
		sent = time.Now()
		if !sent.Before(held.end) {
			return held
		}
		bounded, cancel := context.WithDeadline(ctx, held.end)
		next, err := p.Renew(bounded, abstractions.RenewRequest{Name: name, ID: id, Token: g.Token, TTL: ttl, State: g.State})
		cancel()
		switch {
		case errors.Is(err, abstractions.ErrLost):
			held.end = time.Now()
			return held
		case err == nil && time.Now().Before(held.end):
			g, held.end = next, sent.Add(validity(ttl))
		}
	}
	if rand.IntN(4) > 0 {
		if now := time.Now(); now.Before(held.end) {
			held.end = now
		}
		_ = p.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id, Token: g.Token, State: g.State})
	}
	return held
}

// disturb injects faults into one node after another. Each node votes again before the next node's turn.
func (r *ring) disturb(ctx context.Context) map[string]int {
	count := map[string]int{}
	faults := map[string]func(i int){
		"frozen": func(i int) {
			r.servers[i].Pause()
			<-time.After(rand.N(2 * r.options.MaxTTL))
			r.servers[i].Resume()
		},
		"paused clients": func(i int) {
			pause := fmt.Sprint(rand.IntN(1000))
			require.NoError(r.t, r.admins[i].Do(r.t.Context(), "client", "pause", pause, "all").Err())
		},
		"dead for a while": func(i int) {
			r.servers[i].Kill()
			<-time.After(rand.N(r.options.MaxTTL))
			r.servers[i].RestartEmpty()
		},
	}
	for what, lose := range losses {
		faults[what] = func(i int) { lose(r, i) }
	}
	for i := 0; ctx.Err() == nil; i = (i + 1 + rand.IntN(2)) % len(r.servers) {
		for what, fault := range faults { // any
			fault(i)
			count[what]++
			break
		}
		r.awaitVoting(i)
		select {
		case <-time.After(rand.N(300 * time.Millisecond)):
		case <-ctx.Done():
		}
	}
	return count
}
