package redislease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// puppet answers in Redis' place, so that time can be virtual. It replies to
// each operation with the number that is its ID.
type puppet struct {
	// answer, unless nil, is what a call does before it is answered. An error is
	// the call's. It may shorten or replace the replies.
	answer func(ctx context.Context, call int, replies []any) ([]any, error)

	mu    sync.Mutex
	calls [][]string // the IDs in each EVALSHA
	trips int        // pipelines, and calls alone
}

func (p *puppet) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("a puppet has no network")
	}
}

func (p *puppet) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.trip()
		return p.reply(ctx, cmd)
	}
}

func (p *puppet) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.trip()
		for _, cmd := range cmds {
			_ = p.reply(ctx, cmd)
		}
		return nil
	}
}

func (p *puppet) trip() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trips++
}

func (p *puppet) reply(ctx context.Context, cmd redis.Cmder) error {
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

// idsIn are the first arguments of the operations in a call.
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
	for i := 3 + n + 2; i < len(words); i += p.args {
		ids = append(ids, words[i])
	}
	return ids
}

// programOf finds a script by its name or its text.
func programOf(script string) *program {
	for _, p := range []*program{releaseScript, breakScript, renewScript, acquireScript, leaveScript, inspectScript} {
		if p.sha == script || p.text == script {
			return p
		}
	}
	panic(script)
}

// puppetNode is a node whose calls the puppet answers.
func puppetNode(t *testing.T, p *puppet) *node {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true, MaintNotificationsConfig: noMaintenance(),
	})
	client.AddHook(p)
	d := newNode(client, false, naming{prefix: "leasing"}, 0)
	t.Cleanup(func() {
		d.close()
		require.NoError(t, client.Close())
	})
	return d
}

func numbered(n int) operation {
	return releaseOp(naming{prefix: "leasing"}.keys(fmt.Sprintf("name/%d", n)), strconv.Itoa(n))
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// hang holds calls up until the gate is closed.
func hang() (gate chan struct{}, p *puppet) {
	gate = make(chan struct{})
	return gate, &puppet{answer: func(_ context.Context, _ int, replies []any) ([]any, error) {
		<-gate
		return replies, nil
	}}
}

func TestOperationsOfOneCallGetTheirOwnReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, p := hang()
		d := puppetNode(t, p)
		var all sync.WaitGroup
		each := func(n int, op operation) {
			op.args[0] = strconv.Itoa(n)
			all.Go(func() {
				require.NoError(t, d.do(within(t, time.Second), &op))
				got, _, err := op.reply.number()
				assert.NoError(t, err)
				assert.EqualValues(t, n, got)
			})
			synctest.Wait()
		}
		k := naming{prefix: "leasing"}.keys("name")
		const first = 2 // calls, during which others wait
		for n := range first {
			each(n, numbered(n))
		}
		each(11, leaveOp(k, "", "channel"))
		each(12, acquireOp(k, claim{ttl: time.Second}))
		each(13, releaseOp(k, ""))
		each(14, acquireOp(k, claim{ttl: time.Second}))
		each(15, inspectOp(k))
		each(16, releaseOp(k, ""))
		close(gate)
		all.Wait()
		require.Equal(t, first+1, p.trips, "one pipeline")
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
		"no reason":      {[]any{int64(statusLost)}},
		"no error":       {[]any{int64(statusFailed), int64(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &puppet{answer: func(context.Context, int, []any) ([]any, error) { return replies, nil }}
				s := &single{node: puppetNode(t, p), naming: naming{prefix: "leasing"}}
				ctx := within(t, time.Second)
				results, err := s.renew(ctx, []abstractions.RenewRequest{{Name: "n", ID: "1", Token: 1, TTL: time.Second}})
				require.NoError(t, err)
				requireUncertain(t, results[0].Err)
				require.Zero(t, results[0].Grant)
				requireUncertain(t, s.release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "1"}))
				_, err = s.acquire(ctx, abstractions.AcquireRequest{Name: "n", ID: "1"}, claim{ttl: time.Second})
				requireUncertain(t, err)
				_, err = s.breakLease(ctx, abstractions.BreakRequest{Name: "n"})
				requireUncertain(t, err)
				_, err = s.inspect(ctx, "n")
				requireUncertain(t, err)
			})
		})
	}
}

// requireUncertain is for an error that does not say that nothing happened.
func requireUncertain(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	for _, certain := range []error{
		abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrInvalid,
		abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrThrottled, abstractions.ErrClosed,
	} {
		require.NotErrorIs(t, err, certain)
	}
}

func TestTrap_T66_OfABatchOnlyWhatHasNoReplyIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &puppet{answer: func(_ context.Context, _ int, replies []any) ([]any, error) { return replies[:3], nil }}
		d := puppetNode(t, p)
		replies := d.doAll(within(t, time.Second), numberedUpTo(5))
		for n, r := range replies {
			value, _, err := r.number()
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
		p := &puppet{answer: func(context.Context, int, []any) ([]any, error) { return nil, reset }}
		s := &single{node: puppetNode(t, p), naming: naming{prefix: "leasing"}}
		reqs := make([]abstractions.RenewRequest, 300)
		for i := range reqs {
			reqs[i] = abstractions.RenewRequest{Name: "n", ID: "1", Token: 1, TTL: time.Second}
		}
		results, err := s.renew(within(t, time.Second), reqs)
		require.NoError(t, err)
		require.Len(t, results, len(reqs))
		for _, r := range results {
			requireUncertain(t, r.Err)
			require.ErrorIs(t, r.Err, reset)
		}
	})
}

func numberedUpTo(n int) []operation {
	ops := make([]operation, n)
	for i := range ops {
		ops[i] = numbered(i)
	}
	return ops
}
