package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeRedis answers in place of Redis, so that time can be virtual. It replies to
// each operation with the number in its ID.
type fakeRedis struct {
	// answer, unless nil, runs before a call is answered. Its error is
	// the call's error. It may shorten or replace the replies.
	answer func(ctx context.Context, call int, replies []any) ([]any, error)

	mu         sync.Mutex
	calls      [][]string // the IDs in each EVALSHA
	roundTrips int        // pipelines, and calls sent alone
}

func (p *fakeRedis) around(ctx context.Context, cmds []redis.Cmder, _ func(context.Context) error) (err error) {
	p.mu.Lock()
	p.roundTrips++
	p.mu.Unlock()
	for _, cmd := range cmds {
		err = p.reply(ctx, cmd) // each command has its own error
	}
	return err
}

func (p *fakeRedis) reply(ctx context.Context, cmd redis.Cmder) error {
	ids := idsIn(cmd)
	p.mu.Lock()
	p.calls = append(p.calls, ids)
	call := len(p.calls)
	p.mu.Unlock()
	replies := make([]any, len(ids))
	for i, id := range ids {
		n, _ := strconv.ParseInt(id, 10, 64)
		replies[i] = n
	}
	var err error
	if p.answer != nil {
		replies, err = p.answer(ctx, call, replies)
	}
	if err != nil {
		cmd.SetErr(err)
		return err
	}
	cmd.(interface{ SetVal(any) }).SetVal(replies)
	return nil
}

// idsIn returns the first arguments of the operations in a call.
func idsIn(cmd redis.Cmder) (ids []string) {
	words := make([]string, len(cmd.Args()))
	for i, arg := range cmd.Args() {
		words[i] = fmt.Sprint(arg)
		if text, ok := arg.(*string); ok {
			words[i] = *text
		}
	}
	p := programOf(words[1])
	n, _ := strconv.Atoi(words[2])
	for i := 3 + n + 4; i < len(words); i += p.Args {
		ids = append(ids, words[i])
	}
	return ids
}

// programOf finds a script by its name or its text.
func programOf(text string) *script.Program {
	for _, p := range []*script.Program{script.Release, script.Break, script.Renew, script.Acquire, script.Leave, script.Inspect} {
		if p.SHA == text || p.Text == text {
			return p
		}
	}
	panic(text)
}

// fakeNode returns a node whose calls fakeRedis answers.
func fakeNode(t *testing.T, p *fakeRedis) *Node {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	client.AddHook(redistest.Around(p.around))
	d := New(client, false, script.Naming{Prefix: "leasing"})
	t.Cleanup(func() {
		d.Close()
		require.NoError(t, client.Close())
	})
	return d
}

func numberedOp(n int) script.Operation {
	op := script.Naming{Prefix: "leasing"}.Keys(fmt.Sprintf("name/%d", n)).Release("id")
	op.Args[0] = strconv.Itoa(n)
	return op
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// hangingRedis returns a fakeRedis that blocks calls until the gate is closed.
func hangingRedis() (gate chan struct{}, p *fakeRedis) {
	gate = make(chan struct{})
	return gate, &fakeRedis{answer: func(_ context.Context, _ int, replies []any) ([]any, error) {
		<-gate
		return replies, nil
	}}
}

func TestOperationsOfOneCallGetTheirOwnReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, p := hangingRedis()
		d := fakeNode(t, p)
		var all sync.WaitGroup
		each := func(n int, op script.Operation) {
			op.Args[0] = strconv.Itoa(n)
			all.Go(func() {
				got, err := d.Do(within(t, time.Second), op).Acquired("")
				assert.NoError(t, err)
				assert.EqualValues(t, n, got)
			})
			synctest.Wait()
		}
		k := script.Naming{Prefix: "leasing"}.Keys("name")
		const first = 2 // the calls in flight, during which others wait
		for n := range first {
			each(n, numberedOp(n))
		}
		each(11, k.Leave("", "channel"))
		each(12, k.Acquire(script.Claim{TTL: time.Second}))
		each(13, k.Release(""))
		each(14, k.Acquire(script.Claim{TTL: time.Second}))
		each(15, k.Inspect())
		each(16, k.Release(""))
		close(gate)
		all.Wait()
		require.Equal(t, first+1, p.roundTrips, "one pipeline")
		require.Equal(t, [][]string{{"13", "16"}, {"12", "14"}, {"11"}, {"15"}}, p.calls[first:],
			"releases before the acquires that may wait for them")
	})
}

func TestTrap_T66_WhatHasNoReplyIsUnknown(t *testing.T) {
	for name, replies := range map[string][]any{
		"none":           {},
		"null":           {nil},
		"text":           {"OK"},
		"no status":      {[]any{}},
		"a strange one":  {[]any{"one"}},
		"unknown status": {[]any{int64(99)}},
		"no reason":      {[]any{int64(script.Lost)}},
		"no error":       {[]any{int64(script.Failed), int64(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &fakeRedis{answer: func(context.Context, int, []any) ([]any, error) { return replies, nil }}
				s := &Single{Node: fakeNode(t, p), Naming: script.Naming{Prefix: "leasing"}}
				ctx := within(t, time.Second)
				results, err := s.RenewBatch(ctx, []abstractions.RenewRequest{{Name: "n", ID: "1", Token: 1, TTL: time.Second}})
				require.NoError(t, err)
				redistest.RequireUncertain(t, results[0].Err)
				require.Zero(t, results[0].Grant)
				redistest.RequireUncertain(t, s.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "1"}))
				_, err = s.Acquire(ctx, abstractions.AcquireRequest{Name: "n", ID: "1", TTL: time.Second})
				redistest.RequireUncertain(t, err)
				_, err = s.Break(ctx, abstractions.BreakRequest{Name: "n"})
				redistest.RequireUncertain(t, err)
				_, err = s.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
				redistest.RequireUncertain(t, err)
			})
		})
	}
}

func TestTrap_T66_OfABatchOnlyWhatHasNoReplyIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeRedis{answer: func(_ context.Context, _ int, replies []any) ([]any, error) { return replies[:3], nil }}
		d := fakeNode(t, p)
		replies := doAll(within(t, time.Second), d, numberedUpTo(5))
		for n, r := range replies {
			value, err := r.Acquired("")
			if n < 3 {
				require.NoError(t, err)
				require.EqualValues(t, n, value)
			} else {
				require.ErrorIs(t, err, errNoReply)
			}
		}
	})
}

func TestTrap_T66_AFailedCallIsEveryItemsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset := errors.New("connection reset")
		p := &fakeRedis{answer: func(context.Context, int, []any) ([]any, error) { return nil, reset }}
		s := &Single{Node: fakeNode(t, p), Naming: script.Naming{Prefix: "leasing"}}
		reqs := make([]abstractions.RenewRequest, 300)
		for i := range reqs {
			reqs[i] = abstractions.RenewRequest{Name: "n", ID: "1", Token: 1, TTL: time.Second}
		}
		results, err := s.RenewBatch(within(t, time.Second), reqs)
		require.NoError(t, err)
		require.Len(t, results, len(reqs))
		for _, r := range results {
			redistest.RequireUncertain(t, r.Err)
			require.ErrorIs(t, r.Err, reset)
		}
	})
}

func doAll(ctx context.Context, d *Node, ops []script.Operation) []script.Reply {
	replies := make([]script.Reply, len(ops))
	d.DoAll(ctx, len(ops), func(i int) script.Operation { return ops[i] }, func(i int, r script.Reply) { replies[i] = r })
	return replies
}

func numberedUpTo(n int) []script.Operation {
	ops := make([]script.Operation, n)
	for i := range ops {
		ops[i] = numberedOp(i)
	}
	return ops
}

func TestCallsOnAClusterAreGroupedByMaster(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t, 3).Client(t)
	d := openSingle(t, client)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	batchers := map[string]*batcher{} // by the master's address
	var ops []script.Operation
	for i := range 300 {
		k := d.Naming.Keys(fmt.Sprint("n/", i))
		ops = append(ops, k.Inspect())
		b, err := d.batcherOf(ctx, &ops[i])
		require.NoError(t, err)
		master, err := client.MasterForKey(ctx, k.Name)
		require.NoError(t, err)
		if addr := master.Options().Addr; batchers[addr] == nil {
			batchers[addr] = b
		} else {
			require.Same(t, batchers[addr], b)
		}
	}
	for _, r := range doAll(ctx, d.Node, ops) {
		_, err := r.Record("n")
		require.NoError(t, err)
	}
	require.Len(t, batchers, 3)
	require.Len(t, d.byMaster, 3)

	one := NewSingle(client, true, script.Naming{Prefix: "leasing"})
	require.NoError(t, one.Do(ctx, ops[0]).Err)
	one.Close()
	for i := range ops { // including masters that the node has not asked before
		require.ErrorIs(t, one.Do(ctx, ops[i]).Err, abstractions.ErrClosed)
	}
}

// Calls that are sent over a connection to the wrong master of a Cluster are redirected.
func TestCallsOnAConnectionFollowRedirections(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t, 3).Client(t)
	d := openSingle(t, client)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var ops []*script.Operation
	for i := range 9 {
		op := d.Naming.Keys(fmt.Sprint("n/", i)).Inspect()
		ops = append(ops, &op)
	}
	master, err := client.MasterForKey(ctx, ops[0].Keys[0])
	require.NoError(t, err)
	require.True(t, d.pipelinePool, "pipelines use a connection")
	d.send(ctx, newLink(master), ops)
	for _, op := range ops {
		_, err := op.Reply.Record("n")
		require.NoError(t, err)
	}
}
