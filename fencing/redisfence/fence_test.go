package redisfence_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/internal/fencingtest"
	"github.com/distributedleasing/leasing/fencing/redisfence"
)

// The scripts are tested on a real Redis, with concurrent holders, in
// integration/fencing: this module requires no client. Here a fake Redis
// records the requests, and returns the configured reply.

func decimal(token int64) string { return strconv.FormatInt(token, 10) }

type redisCall struct {
	script string
	keys   []string
	args   []any
}

type fakeRedis struct {
	calls []redisCall
	reply any
	err   error
}

func (f *fakeRedis) eval(_ context.Context, script string, keys []string, args ...any) (any, error) {
	f.calls = append(f.calls, redisCall{script, keys, args})
	return f.reply, f.err
}

func newRedis(t *testing.T, fake *fakeRedis, options redisfence.Options) *redisfence.Fence {
	t.Helper()
	redis, err := redisfence.New(fake.eval, options)
	require.NoError(t, err)
	return redis
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	_, err := redisfence.New(nil, redisfence.Options{})
	require.ErrorContains(t, err, "invalid eval")
	eval := new(fakeRedis).eval
	for field, options := range map[string]redisfence.Options{
		"Options.Retention -1s": {Retention: -time.Second},
		"Options.Retention 1h":  {Retention: time.Hour, Field: "token"},
	} {
		_, err := redisfence.New(eval, options)
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, field)
	}
}

func TestRedisSendsTheTokenAsDigits(t *testing.T) {
	fake := &fakeRedis{reply: []any{decimal(leasing.MaxToken), "PONG"}}
	script := redisfence.NewScript("return redis.call('PING')")
	reply, err := newRedis(t, fake, redisfence.Options{}).
		Run(t.Context(), script, "fence", leasing.MaxToken, []string{"a", "b"}, "x", 7)
	require.NoError(t, err)
	require.Equal(t, "PONG", reply)
	require.Equal(t, []redisCall{{
		script: script.Text(),
		keys:   []string{"fence", "a", "b"},
		args:   []any{"9007199254740991", "", "0", "x", 7},
	}}, fake.calls)

	fake = &fakeRedis{reply: []any{"5"}}
	require.NoError(t, newRedis(t, fake, redisfence.Options{Field: "token"}).Advance(t.Context(), "hash", 5))
	require.Equal(t, []any{"5", "token", "0"}, fake.calls[0].args)

	fake = &fakeRedis{reply: []any{"5", nil}}
	require.NoError(t, newRedis(t, fake, redisfence.Options{Retention: time.Hour + 1}).Advance(t.Context(), "fence", 5))
	require.Equal(t, []any{"5", "", "3600001"}, fake.calls[0].args, "rounded up to milliseconds")
}

func TestRedisSetSendsItsTimeToLive(t *testing.T) {
	for ttl, want := range map[time.Duration]string{0: "0", 1: "1", time.Second: "1000", time.Second + 1: "1001"} {
		fake := &fakeRedis{reply: []any{"5", "OK"}}
		require.NoError(t, newRedis(t, fake, redisfence.Options{}).Set(t.Context(), "fence", 5, "key", "value", ttl))
		require.Equal(t, []any{"5", "", "0", "value", want}, fake.calls[0].args)
	}
}

func TestRedisSendsNothingThatCannotWork(t *testing.T) {
	fake := &fakeRedis{}
	redis := newRedis(t, fake, redisfence.Options{})
	hash := newRedis(t, fake, redisfence.Options{Field: "token"})
	script := redisfence.NewScript("")
	ctx := t.Context()
	invalid := func(field string, err error) {
		t.Helper()
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, "invalid "+field)
	}
	for _, token := range fencingtest.BadTokens {
		invalid("token", redis.Advance(ctx, "fence", token))
	}
	invalid("fence", redis.Advance(ctx, "", 1))
	invalid("ttl", redis.Set(ctx, "fence", 1, "key", "value", -1))
	invalid("key", redis.Set(ctx, "fence", 1, "fence", "value", 0))
	invalid("key", hash.Set(ctx, "hash", 1, "hash", "value", 0))
	_, err := redis.Delete(ctx, "fence", 1, "key", "fence")
	invalid("key", err)
	_, err = hash.Delete(ctx, "hash", 1, "hash")
	invalid("key", err)
	_, err = redis.Run(ctx, script, "fence", 1, []string{"key", "fence"})
	invalid("key", err)
	_, err = redis.Run(ctx, nil, "fence", 1, nil)
	invalid("script", err)
	_, err = redis.Run(ctx, new(redisfence.Script), "fence", 1, nil)
	invalid("script", err)
	require.Empty(t, fake.calls)
}

func TestRedisSendsNothingOnceItsContextHasEnded(t *testing.T) {
	lost := &leasing.LostError{Reason: leasing.LostExpired}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(lost)
	fake := &fakeRedis{}
	require.Equal(t, lost, newRedis(t, fake, redisfence.Options{}).Advance(ctx, "fence", 1))
	require.Empty(t, fake.calls)
}

func TestRedisSaysWhyItsContextEnded(t *testing.T) {
	lost := &leasing.LostError{Reason: leasing.LostExpired}
	ctx, cancel := context.WithCancelCause(t.Context())
	redis, err := redisfence.New(func(ctx context.Context, _ string, _ []string, _ ...any) (any, error) {
		cancel(lost)
		return nil, ctx.Err()
	}, redisfence.Options{})
	require.NoError(t, err)
	err = redis.Advance(ctx, "fence", 1)
	require.ErrorIs(t, err, lost)
	require.ErrorIs(t, err, context.Canceled)
}

// If an errgroup ends a context because another resource refused its token, that refusal does not apply to this resource:
// the script may have run.
func TestTrap_T88_TheCauseOfAContextIsNoRefusal(t *testing.T) {
	for _, other := range []error{fencing.Check("other", 1, 2), fencing.Check("other", 0, 0)} {
		ctx, cancel := context.WithCancelCause(t.Context())
		redis, err := redisfence.New(func(ctx context.Context, _ string, _ []string, _ ...any) (any, error) {
			cancel(other)
			return nil, errors.New("interrupted")
		}, redisfence.Options{})
		require.NoError(t, err)
		err = redis.Advance(ctx, "fence", 1)
		require.NotErrorIs(t, err, leasing.ErrStale)
		require.NotErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, other.Error())
	}
}

func TestRedisReportsAFailedCheck(t *testing.T) {
	broken := errors.New("broken pipe")
	err := newRedis(t, &fakeRedis{err: broken}, redisfence.Options{}).Advance(t.Context(), "fence", 1)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, leasing.ErrStale, "a failed check says nothing about the token")
	require.ErrorContains(t, err, `"fence"`)
}

func TestRedisReadsRefusalsOfAnyClient(t *testing.T) {
	for _, seen := range []any{"34", []byte("34")} {
		err := newRedis(t, &fakeRedis{reply: []any{seen}}, redisfence.Options{}).Advance(t.Context(), "fence", 33)
		require.Equal(t, &fencing.StaleError{Resource: "fence", Token: 33, Seen: 34}, err)
	}
}

// An unclear reply is neither a permission nor a refusal.
func TestRedisTakesNoOtherReplyForAnAnswer(t *testing.T) {
	for _, reply := range []any{
		nil, "OK", int64(1), []string{"33"}, []any{}, []any{nil}, []any{"32"}, []any{"033"}, []any{33.0},
		[]any{"34", "OK"}, []any{"32", "OK"}, []any{nil, "OK"}, []any{"33", "OK", "OK"},
	} {
		err := newRedis(t, &fakeRedis{reply: reply}, redisfence.Options{}).Advance(t.Context(), "fence", 33)
		require.ErrorContains(t, err, "unexpected reply", "%v", reply)
		require.NotErrorIs(t, err, leasing.ErrStale)
	}
	_, err := newRedis(t, &fakeRedis{reply: []any{"33", "1"}}, redisfence.Options{}).Delete(t.Context(), "fence", 33, "key")
	require.ErrorContains(t, err, "unexpected count")
}

// A script's text never changes, because Redis caches scripts by text. The line numbers in Redis' errors are those of the
// body.
func TestRedisScriptHasOneTextAndTheLinesOfItsBody(t *testing.T) {
	body := "local a = 1\nreturn a -- the end"
	script := redisfence.NewScript(body)
	require.Equal(t, script.Text(), redisfence.NewScript(body).Text())
	lines := strings.Split(script.Text(), "\n")
	require.True(t, strings.HasSuffix(lines[0], "local a = 1"))
	require.Equal(t, "return a -- the end", lines[1])
	require.Equal(t, "end", lines[2])

	lines = strings.Split(redisfence.NewScript("#!lua flags=allow-oom\nreturn 1").Text(), "\n")
	require.Equal(t, "#!lua flags=allow-oom", lines[0])
	require.True(t, strings.HasSuffix(lines[1], "return 1"))
	require.True(t, strings.HasPrefix(redisfence.NewScript("#!lua").Text(), "#!lua\nlocal body = function(KEYS, ARGV)"))
}
