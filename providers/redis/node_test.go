package redislease

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTrap_T44_AServerThatForgotTheScriptsIsTaughtAgain(t *testing.T) {
	t.Parallel()
	for how, forget := range map[string]func(b *bed){
		"flush":         func(b *bed) { require.NoError(b.t, b.admin.ScriptFlush(b.t.Context()).Err()) },
		"restart":       func(b *bed) { b.server.Restart() },
		"restart empty": func(b *bed) { b.server.RestartEmpty() },
	} {
		t.Run(how, func(t *testing.T) {
			b := newBed(t, redistest.Options{Persist: true})
			last := int64(0)
			for n := range 3 {
				id := fmt.Sprint("id", n)
				forget(b)
				b.awaitReconnect()
				g := b.Take("n", id, time.Minute)
				require.Greater(t, g.Token, last)
				last = g.Token
				forget(b)
				b.awaitReconnect()
				err := b.renew(g, time.Minute)
				if how == "restart empty" {
					redistest.RequireLost(t, err, abstractions.LostGone)
				} else {
					require.NoError(t, err)
				}
				forget(b)
				b.awaitReconnect()
				_, err = b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
				require.NoError(t, err)
				forget(b)
				b.awaitReconnect()
				b.breakNow("n")
				forget(b)
				b.awaitReconnect()
				b.release("n", id)
			}
		})
	}
}

// awaitReconnect waits until the provider's client has noticed the loss of its
// connections.
func (b *bed) awaitReconnect() {
	b.t.Helper()
	b.eventually(func() bool { return b.Ping(b.t.Context()) == nil })
}

func TestTrap_T44_ScriptsForgottenInTheMiddleOfPipelines(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	flush := func([]redis.Cmder) { assert.NoError(t, b.admin.ScriptFlush(t.Context()).Err()) }
	b.recorder.doBefore(func(cmds []redis.Cmder) {
		if cmds[0].Name() == "evalsha" {
			flush(cmds)
		}
	})
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for n := range 20 {
				name, id := fmt.Sprint("n/", worker), fmt.Sprint(n)
				g, err := b.Try(name, id, time.Minute)
				if !assert.NoError(t, err) {
					return
				}
				assert.NoError(t, b.renew(g, time.Minute))
				assert.NoError(t, b.Release(t.Context(), abstractions.ReleaseRequest{Name: name, ID: id}))
			}
		})
	}
	all.Wait()
}

func TestAnswersOfALargeBatchAreInOrder(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	require.ErrorIs(t, b.renew(abstractions.Grant{Name: "n", ID: "a", Token: 1}, time.Minute), abstractions.ErrLost) // the script is known now
	for _, n := range []int{255, 256, 257, 1000} {
		reqs := make([]abstractions.RenewRequest, n)
		var all sync.WaitGroup
		for i := range reqs {
			reqs[i] = abstractions.RenewRequest{Name: fmt.Sprint(n, "/", i), ID: fmt.Sprint(i), Token: 1, TTL: time.Minute}
			if i%3 == 0 {
				all.Go(func() {
					g, err := b.Try(reqs[i].Name, reqs[i].ID, 30*time.Second)
					assert.NoError(t, err)
					reqs[i].Token = g.Token
				})
			}
		}
		all.Wait()
		before := b.recorder.sent.Load()
		results, err := b.RenewBatch(t.Context(), reqs)
		require.NoError(t, err)
		require.Len(t, results, n)
		require.EqualValues(t, (n+255)/256, b.recorder.sent.Load()-before)
		for i, r := range results {
			if i%3 == 0 {
				require.NoError(t, r.Err)
				require.Equal(t, reqs[i].Name, r.Grant.Name)
				require.Equal(t, reqs[i].Token, r.Grant.Token)
			} else {
				redistest.RequireLost(t, r.Err, abstractions.LostGone)
			}
		}
	}
}

// clusterBed starts a cluster with a provider, and returns lease names, grouped by
// their master.
func clusterBed(t *testing.T) (*redistest.Cluster, *Provider, [][]string) {
	t.Helper()
	c := redistest.StartCluster(t, 3)
	p := openTest(t, Options{URL: clusterURL(c)})
	client := c.Client(t)
	place := map[string]int{}
	for i, s := range c.Servers {
		place[s.Addr()] = i
	}
	names := make([][]string, len(c.Servers))
	for n := range 300 {
		name := fmt.Sprint("n/", n)
		master, err := client.MasterForKey(t.Context(), keysOf(name).Name)
		require.NoError(t, err)
		i := place[master.Options().Addr]
		names[i] = append(names[i], name)
	}
	return c, p, names
}

func TestOneFrozenMasterOfAClusterDelaysNoOther(t *testing.T) {
	t.Parallel()
	c, p, names := clusterBed(t)
	var reqs []abstractions.RenewRequest
	var master []int
	for i := range names {
		for _, name := range names[i] {
			g, err := p.Acquire(t.Context(), redistest.AcquireRequest(name, "a", time.Minute))
			require.NoError(t, err)
			reqs = append(reqs, abstractions.RenewRequest{Name: name, ID: "a", Token: g.Token, TTL: time.Minute})
			master = append(master, i)
		}
	}
	const frozen = 1
	c.Servers[frozen].Pause()
	defer c.Servers[frozen].Resume()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	results, err := p.RenewBatch(ctx, reqs)
	require.NoError(t, err)
	for i, r := range results {
		if master[i] == frozen {
			redistest.RequireUncertain(t, r.Err)
		} else {
			require.NoError(t, r.Err, "a master that is well, beside one that is not")
			require.Equal(t, reqs[i].Token, r.Grant.Token)
		}
	}
	hung := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: names[frozen][0]})
		hung <- err
	}()
	for i := range names {
		if i == frozen {
			continue
		}
		for _, name := range names[i][:20] {
			require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: name, ID: "a"}))
		}
	}
	select {
	case err := <-hung:
		t.Fatalf("the others took as long as the one that hangs: %v", err)
	default:
	}
	require.Error(t, <-hung)
}
