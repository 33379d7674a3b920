package redislease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
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

func (p *puppet) sent() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ids := range p.calls {
		all = append(all, ids...)
	}
	return all
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

// puppetNode is a node whose calls the puppet answers, all of them through lanes.
func puppetNode(t *testing.T, p *puppet) *node {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true, MaintNotificationsConfig: noMaintenance(),
	})
	client.AddHook(p)
	d := newNode(client, naming{prefix: "leasing"}, 0)
	d.timely = false
	t.Cleanup(func() {
		d.close()
		require.NoError(t, client.Close())
	})
	return d
}

// operate releases the n-th name of somebody, which the puppet replies to with n.
func operate(ctx context.Context, d *node, n int) (int64, error) {
	op := numbered(n)
	if err := d.lanes.do(ctx, &op); err != nil {
		return 0, err
	}
	value, _, err := op.reply.number()
	return value, err
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

// held lets calls hang until they are let go.
type held struct{ gate chan struct{} }

// hang holds the first n calls up.
func hang(n int) (*held, *puppet) {
	h := &held{gate: make(chan struct{})}
	return h, &puppet{answer: func(ctx context.Context, call int, replies []any) ([]any, error) {
		if call > n {
			return replies, nil
		}
		until, _ := ctx.Deadline()
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case <-h.gate:
			return replies, nil
		case <-timer.C: // as a connection does that was given the deadline
			return nil, context.DeadlineExceeded
		}
	}}
}

func (h *held) letGo() { close(h.gate) }

func TestAloneNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &puppet{}
		d := puppetNode(t, p)
		began := time.Now()
		for n := range 10 {
			got, err := operate(within(t, time.Second), d, n)
			require.NoError(t, err)
			require.EqualValues(t, n, got)
		}
		require.Zero(t, time.Since(began))
		require.Equal(t, 10, p.trips)
	})
}

func TestWhatHappensMeanwhileSharesACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := hang(maxFlights)
		d := puppetNode(t, p)
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() {
				got, err := operate(within(t, time.Second), d, n)
				assert.NoError(t, err)
				assert.EqualValues(t, n, got, "to each its own reply")
			})
			synctest.Wait()
		}
		require.Len(t, p.calls, maxFlights)
		h.letGo()
		all.Wait()
		require.Len(t, p.calls, maxFlights+1)
		require.Len(t, p.calls[maxFlights], 100-maxFlights)
	})
}

func TestVerbsOfOneFlightGetTheirOwnReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := hang(maxFlights)
		d := puppetNode(t, p)
		var all sync.WaitGroup
		each := func(n int, op operation) {
			op.args[0] = strconv.Itoa(n)
			all.Go(func() {
				require.NoError(t, d.lanes.do(within(t, time.Second), &op))
				got, _, err := op.reply.number()
				assert.NoError(t, err)
				assert.EqualValues(t, n, got)
			})
			synctest.Wait()
		}
		k := naming{prefix: "leasing"}.keys("name")
		for n := range maxFlights {
			each(n, numbered(n))
		}
		each(11, leaveOp(k, "", "channel"))
		each(12, acquireOp(k, claim{ttl: time.Second}))
		each(13, releaseOp(k, ""))
		each(14, acquireOp(k, claim{ttl: time.Second}))
		each(15, inspectOp(k))
		each(16, releaseOp(k, ""))
		h.letGo()
		all.Wait()
		require.Equal(t, maxFlights+1, p.trips, "one pipeline")
		require.Equal(t, [][]string{{"13", "16"}, {"12", "14"}, {"11"}, {"15"}}, p.calls[maxFlights:],
			"releases before the acquires that may wait for them")
	})
}

func TestTrap_T66_WhoLeavesEarlyHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := hang(maxFlights + 1)
		d := puppetNode(t, p)
		ctx, leave := context.WithCancel(within(t, time.Minute))
		var flights, others sync.WaitGroup
		for n := range maxFlights {
			flights.Go(func() { _, _ = operate(within(t, 10*time.Millisecond), d, n) })
			synctest.Wait()
		}
		left := make(chan error, 1)
		go func() { _, err := operate(ctx, d, 100); left <- err }()
		synctest.Wait()
		for n := range 5 {
			others.Go(func() {
				got, err := operate(within(t, time.Minute), d, n)
				assert.NoError(t, err)
				assert.EqualValues(t, n, got)
			})
		}
		flights.Wait() // the next flight is under way then, with all six
		synctest.Wait()
		require.Len(t, p.sent(), maxFlights+6)
		began := time.Now()
		leave()
		err := <-left
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, abstractions.ErrUnavailable, "it was sent, maybe")
		require.Zero(t, time.Since(began), "who leaves does not wait")
		h.letGo()
		others.Wait()
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
		replies := d.lanes.doAll(within(t, time.Second), numberedUpTo(5))
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

func TestBatchesKeepTheirOrderInCallsOfABoundedSize(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 511, 512, 513, 1000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &puppet{}
				replies := puppetNode(t, p).lanes.doAll(within(t, time.Second), numberedUpTo(n))
				require.Len(t, replies, n)
				for i, r := range replies {
					value, _, err := r.number()
					require.NoError(t, err)
					require.EqualValues(t, i, value)
				}
				require.Len(t, p.calls, (n+maxOperations-1)/maxOperations)
				for _, ids := range p.calls {
					require.LessOrEqual(t, len(ids), maxOperations)
				}
				require.Len(t, slices.Compact(slices.Sorted(slices.Values(p.sent()))), n, "each once")
			})
		})
	}
}
