package redislease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

var sentinels = []error{abstractions.ErrUnavailable, abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrClosed}

// means checks which of the sentinels an error is, and that it still has its cause.
func means(t *testing.T, err, cause error, want ...error) {
	t.Helper()
	for _, sentinel := range sentinels {
		require.Equal(t, slices.Contains(want, sentinel), errors.Is(err, sentinel), "%v: %v", cause, sentinel)
	}
	require.ErrorIs(t, err, cause, "the library's error stays in the chain")
}

// T27: the code of Redis' error decides, never what follows it. The errors come
// from a server, as go-redis reads them.
func TestTrap_T27_CodeDecidesWhatAnErrorMeans(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	throttled := []error{abstractions.ErrUnavailable, abstractions.ErrThrottled}
	listed := map[string]bool{}
	for _, test := range []struct {
		codes []string
		want  []error
	}{
		{[]string{"ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOCLOCK", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN"}, throttled},
		{[]string{"DENIED", "NOAUTH", "NOPERM", "WRONGPASS"}, []error{abstractions.ErrDenied}},
		{[]string{"WRONGTYPE", "CROSSSLOT", "NOPROTO", "OTHERVERSION"}, []error{abstractions.ErrNotSetUp}},
		{[]string{"ERR", "NOSCRIPT", "EXECABORT", "BUSYGROUP", "SOMETHING", "oom", "Oom"}, []error{abstractions.ErrUnavailable}},
	} {
		for _, code := range test.codes {
			listed[code] = true
			text := code + " OOM NOPERM READONLY held lost denied"
			cause := client.Eval(t.Context(), "return redis.error_reply(ARGV[1])", nil, text).Err()
			require.ErrorContains(t, cause, code)
			for _, err := range []error{cause, fmt.Errorf("wrapped: %w", cause)} {
				means(t, failure(err), err, test.want...)
			}
			// The same from within a script.
			failed := (&list{status: statusFailed, rest: []any{text}}).unexpected()
			means(t, failed, scriptError(text), test.want...)
		}
	}
	for code := range maps.Keys(codes) {
		if _, foreseen := listed[code]; !foreseen && codes[code] != providerkit.Unknown {
			t.Errorf("%s is not tested here", code)
		}
	}
}

func TestErrorsOfTheConnectionLeaveTheOutcomeUnknown(t *testing.T) {
	for _, cause := range []error{
		io.EOF, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded, context.DeadlineExceeded, redis.ErrPoolTimeout, redis.ErrPoolExhausted,
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}, &net.DNSError{Err: "no such host"},
		errors.New("OOM but of no server"), errors.New("NOPERM"), redis.TxFailedErr, redis.Nil,
	} {
		means(t, failure(cause), cause, abstractions.ErrUnavailable)
	}
	means(t, failure(redis.ErrClosed), redis.ErrClosed, abstractions.ErrClosed)
	require.NoError(t, failure(nil))

	gone := failure(fmt.Errorf("wrapped: %w", context.Canceled))
	means(t, gone, context.Canceled, abstractions.ErrUnavailable)
	require.Equal(t, errNoReply, failure(errNoReply), "once is enough")
}

// What the script says and this code does not understand was applied, maybe.
func TestStrangeRepliesLeaveTheOutcomeUnknown(t *testing.T) {
	for _, value := range []any{
		nil, "text", 1.5, []any{}, []any{"1"}, []any{int64(99)}, []any{int64(statusSeen)}, []any{int64(statusSeen), "x\ny", int64(1)}, []any{int64(statusSeen), free(1).String()},
		[]any{int64(statusSeen), "1" + strings.Repeat("x", 40), int64(1)}, []any{int64(statusSeen), strings.Replace(voted(7, "a", 1, 1, 0, 0).String(), "60000", "x", 1), int64(1)},
		[]any{int64(statusLost)}, []any{int64(statusLost), int64(1)}, []any{int64(statusBroken), int64(1)},
		[]any{int64(statusStale)}, []any{int64(statusFailed)}, []any{int64(statusQuarantined)},
	} {
		r := reply{value: value}
		_, err := r.acquired("name")
		require.ErrorIs(t, err, abstractions.ErrUnavailable, "%v", value)
		require.NotErrorIs(t, err, abstractions.ErrHeld)
		err = r.renewed()
		require.ErrorIs(t, err, abstractions.ErrUnavailable, "%v", value)
		require.NotErrorIs(t, err, abstractions.ErrLost)
		_, err = r.broken()
		require.ErrorIs(t, err, abstractions.ErrUnavailable, "%v", value)
		_, err = r.record("name")
		require.ErrorIs(t, err, abstractions.ErrUnavailable, "%v", value)
		require.ErrorIs(t, r.done(), abstractions.ErrUnavailable, "%v", value)
	}
	err := (&list{status: statusQuarantined, rest: []any{int64(1500)}}).unexpected()
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.NotErrorIs(t, err, abstractions.ErrThrottled)
	require.ErrorContains(t, err, (1500 * time.Millisecond).String())
}

// T71: where one attempt is made, a server that was not reached has done nothing, so
// there is nothing to clean up. A client that tries again may have reached it before.
func TestTrap_T71_WhatWasNotSentIsNotApplied(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1" // refuses connections
	cluster := closed(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nobody}}))
	again := closed(t, redis.NewClient(&redis.Options{Addr: nobody, MaxRetries: 1, DialerRetries: 1}))
	for _, test := range []struct {
		options  Options
		definite bool
	}{
		{Options{URL: "redis://" + nobody}, true},
		{Options{URL: "redis://nobody.invalid"}, true},
		{Options{URL: "unix:///nowhere.sock"}, true},
		{Options{URL: "redis://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?mode=redlock"}, true},
		{Options{URL: silent(t), Timeout: 100 * time.Millisecond}, false},
		{Options{Client: again}, false},
		{Options{Client: cluster}, false},
	} {
		p := openTest(t, test.options)
		_, err := p.Acquire(context.Background(), claimOf("name"))
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.Equal(t, test.definite, abstractions.NotApplied(err), "%v: %v", test.options, err)
		_, err = p.Renew(context.Background(), abstractions.RenewRequest{Name: "name", ID: "x", Token: 1, TTL: time.Minute})
		require.Equal(t, test.definite, abstractions.NotApplied(err), "%v: %v", test.options, err)
	}
}
