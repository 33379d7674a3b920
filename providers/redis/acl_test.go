package redislease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/require"
)

// exercise makes every call of a provider, and returns the errors. Like an application, it
// goes on after an error.
func exercise(t *testing.T, p *Provider) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := exerciser{ctx: ctx, p: p}
	e.note(p.Ping(ctx))
	first, second, third := claimOf("name"), claimOf("name"), claimOf("name")
	first.TTL /= 2
	grant := e.acquire(first)
	first.TTL += time.Second
	e.acquire(first) // a repeated acquire prolongs the lease
	for _, ttl := range []time.Duration{time.Minute, abstractions.Infinite} {
		first.TTL = ttl
		if ttl != abstractions.Infinite || p.Capabilities().Infinite {
			_, err := p.Renew(ctx, renewOf(first, grant))
			e.note(err)
		}
	}
	leaveSecond := e.wait(second)
	leaveThird := e.wait(third)
	_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "name"})
	e.note(err)
	_, err = p.Break(ctx, abstractions.BreakRequest{Name: "name", Grace: time.Minute})
	e.note(err)
	e.note(p.Release(ctx, abstractions.ReleaseRequest{Name: "name", ID: first.ID}))
	leaveSecond() // it is second's turn
	e.get(third)
	leaveThird()
	_, err = p.Break(ctx, abstractions.BreakRequest{Name: "name", Immediate: true})
	e.note(err)
	e.note(p.Release(ctx, abstractions.ReleaseRequest{Name: "name", ID: third.ID}))
	_, err = p.List(ctx, abstractions.ListRequest{})
	e.note(err)
	return errors.Join(e.errs...)
}

type exerciser struct {
	ctx  context.Context
	p    *Provider
	errs []error
}

func (e *exerciser) note(err error) {
	if !errors.Is(err, abstractions.ErrHeld) {
		e.errs = append(e.errs, err)
	}
}

func (e *exerciser) acquire(req abstractions.AcquireRequest) abstractions.Grant {
	grant, err := e.p.Acquire(e.ctx, req)
	e.note(err)
	return grant
}

// get tries up to 100 times while the name is held: the holder may never release the name.
func (e *exerciser) get(req abstractions.AcquireRequest) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		_, err := e.p.Acquire(e.ctx, req)
		if !errors.Is(err, abstractions.ErrHeld) {
			e.note(err)
			return
		}
		<-tick.C
	}
}

// wait registers a claim as a waiter for a held name.
func (e *exerciser) wait(req abstractions.AcquireRequest) (leave func()) {
	ctx, cancel := context.WithCancel(e.ctx)
	timer := time.AfterFunc(3*time.Second, cancel)
	_, err := e.p.Wait(ctx, abstractions.WaitRequest{Name: req.Name, ID: req.ID})
	timer.Stop()
	e.note(err)
	e.acquire(req)
	return cancel
}

func userWith(rights ...string) redistest.Options {
	return redistest.Options{Users: []string{"app on >secret " + strings.Join(rights, " ")}}
}

func asUser(s *redistest.Server) string { return "redis://app:secret@" + s.Addr() }

// refusals returns the commands that the server refused for a missing permission,
// including refusals that scripts ignored.
func refusals(t *testing.T, s *redistest.Server) (refused []string) {
	t.Helper()
	entries, err := s.Client(t).ACLLog(t.Context(), 100).Result()
	require.NoError(t, err)
	for _, entry := range entries {
		refused = append(refused, fmt.Sprintf("%s %s in %s", entry.Reason, entry.Object, entry.Context))
	}
	return refused
}

// requireSufficient exercises a provider with the given permissions, and expects no refusal.
func requireSufficient(t *testing.T, url string, servers ...*redistest.Server) {
	t.Helper()
	p, err := OpenURL(t.Context(), url)
	require.NoError(t, err)
	require.NoError(t, exercise(t, p))
	if lister, ok := abstractions.As[abstractions.WaiterLister](p); ok {
		_, err = lister.Waiters(t.Context(), abstractions.WaitersRequest{Name: "name"})
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	for _, server := range servers {
		require.Empty(t, refusals(t, server))
	}
}

func TestRightsSuffice(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, userWith(ACLRules))
	requireSufficient(t, asUser(server), server)

	server = redistest.Start(t, userWith(strings.ReplaceAll(ACLRules, "leasing", "locks"), NameACLRules))
	requireSufficient(t, asUser(server)+"?prefix=locks&client_name=me", server)
}

func TestWhoWaitsIsForThoseWhoMayLook(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, userWith(strings.Replace(ACLRules, "+zrange ", "", 1)))
	_, err := openTest(t, Options{URL: asUser(server)}).Waiters(t.Context(), abstractions.WaitersRequest{Name: "name"})
	require.ErrorIs(t, err, abstractions.ErrDenied)
}

func TestRightsSufficeOnRedlock(t *testing.T) {
	t.Parallel()
	servers := redistest.StartMany(t, 3, userWith(ACLRules, RedlockACLRules))
	url := redlockOf(asUser(servers[0]), asUser(servers[1]), asUser(servers[2]))
	require.NoError(t, openTest(t, Options{URL: url}).Bootstrap(t.Context()))
	requireSufficient(t, url, servers...)
}

func TestRightsSufficeOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	for _, server := range cluster.Servers {
		args := []any{"ACL", "SETUSER", "app", "on", ">secret"}
		for _, word := range strings.Fields(ACLRules + " " + ClusterACLRules) {
			args = append(args, word)
		}
		require.NoError(t, server.Client(t).Do(t.Context(), args...).Err())
	}
	requireSufficient(t, strings.Replace(clusterURL(cluster), "redis://", "redis://app:secret@", 1), cluster.Servers...)
}

// optionalRights lists the permissions whose absence costs only time: no waiter is woken,
// or the wake-up takes longer.
var optionalRights = []string{"&leasing:wake:*", "+subscribe", "+publish", "+zpopmin", "+zrange", "+zrem"}

// T17: a missing permission is reported as such, and leaves no lease without a holder and
// no key without an expiry. Each of the permissions is needed.
func TestTrap_T17_MissingRightIsDeniedAndLeavesNothingForEver(t *testing.T) {
	t.Parallel()
	rights := strings.Fields(ACLRules)
	for i, right := range rights {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, userWith(slices.Delete(slices.Clone(rights), i, i+1)...))
			p, err := Open(t.Context(), Options{URL: asUser(server)})
			require.NoError(t, err)
			_, err = p.Acquire(t.Context(), claimOf("finite"))
			for n := 0; n < 5 && err != nil && !abstractions.NotApplied(err); n++ { // on a busy machine an attempt may be cut short
				_, err = p.Acquire(t.Context(), claimOf("finite"))
			}
			if err != nil {
				require.ErrorIs(t, err, abstractions.ErrDenied)
				lease := keysOf("finite").Name
				exists, err := server.Client(t).Exists(t.Context(), lease).Result()
				require.NoError(t, err)
				require.Zero(t, exists, "a lease of a claim that was refused")
			}
			requireExpiries(t, server)
			err = exercise(t, p)
			if !slices.Contains(optionalRights, right) {
				require.ErrorIs(t, err, abstractions.ErrDenied)
			}
			require.NoError(t, p.Close())
			require.NotEmpty(t, refusals(t, server), "nobody needs it")
		})
	}
}

func requireExpiries(t *testing.T, s *redistest.Server) {
	t.Helper()
	keys, err := s.Client(t).Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		left, err := s.Client(t).PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		require.Positive(t, left, "%s stays for ever", key)
	}
}

// T76: a user of a Redlock needs permission to run INFO: without INFO, a process can't detect
// that a server has restarted.
func TestTrap_T76_RedlockWithoutTheRightToLookIsDenied(t *testing.T) {
	t.Parallel()
	servers := redistest.StartMany(t, 3, userWith(strings.Fields(ACLRules)...))
	bootstrap(t, servers)
	p, err := OpenURL(t.Context(), redlockOf(asUser(servers[0]), asUser(servers[1]), asUser(servers[2])))
	require.NoError(t, err)
	defer p.Close()
	_, err = p.Acquire(t.Context(), claimOf("a"))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	require.ErrorContains(t, err, "info")
}
