package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/httpfence"
	"github.com/distributedleasing/leasing/fencing/redisfence"
)

func TestRedisRemembersTheHighestTokenOfEachFence(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		ctx, a, other := t.Context(), b.key("a"), b.key("b")
		require.NoError(t, b.Advance(ctx, a, 33))
		require.NoError(t, b.Advance(ctx, a, 33), "the same holder again")
		require.NoError(t, b.Advance(ctx, a, 34))
		require.Equal(t, &fencing.StaleError{Resource: a, Token: 33, Seen: 34}, b.Advance(ctx, a, 33))
		require.NoError(t, b.Advance(ctx, other, 1))
		require.NoError(t, b.Advance(ctx, a, 100), "compared as numbers, not as texts")
		require.ErrorIs(t, b.Advance(ctx, a, 99), leasing.ErrStale)
		require.Equal(t, "100", b.get(t, "a"))
		left, err := b.client.PTTL(ctx, a).Result()
		require.NoError(t, err)
		require.EqualValues(t, -1, left, "kept forever")
	})
}

// A holder is paused, its successor works, and then the first holder's write
// arrives.
func TestRedisRefusesALateWrite(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		ctx, fence, key := t.Context(), b.key("fence"), b.key("report")
		require.NoError(t, b.Set(ctx, fence, 33, key, "first", 0))
		require.NoError(t, b.Set(ctx, fence, 34, key, "second", 0))
		stale := &fencing.StaleError{Resource: fence, Token: 33, Seen: 34}
		require.Equal(t, stale, b.Set(ctx, fence, 33, key, "late", 0))
		removed, err := b.Delete(ctx, fence, 33, key)
		require.Equal(t, stale, err)
		require.Zero(t, removed)
		require.Equal(t, "second", b.get(t, "report"))
	})
}

func TestRedisSetKeepsItsTimeToLive(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		ctx, fence, key := t.Context(), b.key("fence"), b.key("report")
		require.NoError(t, b.Set(ctx, fence, 33, key, "text", time.Hour))
		left, err := b.client.PTTL(ctx, key).Result()
		require.NoError(t, err)
		require.InDelta(t, time.Hour, left, float64(time.Minute))
		require.NoError(t, b.Set(ctx, fence, 33, key, "", 0))
		require.EqualValues(t, -1, b.client.PTTL(ctx, key).Val())
		require.Empty(t, b.get(t, "report"))
	})
}

// Deleting a value keeps the token with which the next write is compared.
func TestTrap_T21_RedisDeleteKeepsTheFence(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		ctx, fence := t.Context(), b.key("fence")
		one, two := b.key("one"), b.key("two")
		require.NoError(t, b.Set(ctx, fence, 33, one, "1", 0))
		require.NoError(t, b.Set(ctx, fence, 33, two, "2", 0))
		removed, err := b.Delete(ctx, fence, 34, one, two, b.key("none"))
		require.NoError(t, err)
		require.EqualValues(t, 2, removed)
		require.ErrorIs(t, b.Set(ctx, fence, 33, one, "again", 0), leasing.ErrStale)
		require.Zero(t, b.client.Exists(ctx, one, two).Val())
		removed, err = b.Delete(ctx, fence, 34)
		require.NoError(t, err)
		require.Zero(t, removed)
	})
}

func TestRedisDeletesMoreKeysThanLuaUnpacks(t *testing.T) {
	b := openRedis(t, runScript, 3)
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = b.key(strconv.Itoa(i))
	}
	require.NoError(t, b.Set(t.Context(), b.key("fence"), 1, keys[9_999], "x", 0))
	removed, err := b.Delete(t.Context(), b.key("fence"), 1, keys...)
	require.NoError(t, err)
	require.EqualValues(t, 1, removed)
}

func TestTrap_T44_RedisLoadsScriptsAgain(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		require.NoError(t, b.Advance(t.Context(), b.key("a"), 33))
		require.NoError(t, b.client.ScriptFlush(t.Context()).Err())
		require.NoError(t, b.Advance(t.Context(), b.key("a"), 34))
		require.ErrorIs(t, b.Advance(t.Context(), b.key("a"), 33), leasing.ErrStale)
	})
}

// Redis keeps every digit of a token, although Lua's tostring(9007199254740991) is
// 9.007199254741e+15.
func TestTrap_T65_RedisKeepsEveryDigit(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		ctx, a := t.Context(), b.key("a")
		for token := int64(leasing.MaxToken - 3); token <= leasing.MaxToken; token++ {
			require.NoError(t, b.Advance(ctx, a, token))
			require.Equal(t, strconv.FormatInt(token, 10), b.get(t, "a"))
			require.Equal(t, &fencing.StaleError{Resource: a, Token: token - 1, Seen: token}, b.Advance(ctx, a, token-1))
		}
		require.ErrorIs(t, b.Advance(ctx, a, leasing.MaxToken+1), leasing.ErrInvalid)
		require.Equal(t, "9007199254740991", b.get(t, "a"))

		hash := b.fenceWith(t, redisfence.Options{Field: "token"})
		require.NoError(t, hash.Advance(ctx, b.key("hash"), leasing.MaxToken))
		require.ErrorIs(t, hash.Advance(ctx, b.key("hash"), leasing.MaxToken-1), leasing.ErrStale)
		require.Equal(t, "9007199254740991", b.client.HGet(ctx, b.key("hash"), "token").Val())
	})
}

// A fence without a valid token admits no holder, whatever value it has instead.
func TestRedisRefusesAFenceThatHoldsNoToken(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		ctx, fence, key := t.Context(), b.key("fence"), b.key("report")
		for _, text := range []string{"", "0", "-1", "034", "1.5", "1e3", "0x10", " 1", "1\n", "nan", "inf", "x", "9007199254740992", "99999999999999999999"} {
			require.NoError(t, b.client.Set(ctx, fence, text, 0).Err())
			err := b.Set(ctx, fence, leasing.MaxToken, key, "text", 0)
			require.ErrorContains(t, err, "holds something other than a fencing token", "%q", text)
			require.ErrorIs(t, err, leasing.ErrInvalid, "to try again won't help")
			require.NotErrorIs(t, err, leasing.ErrStale)
			require.Equal(t, text, b.get(t, "fence"))
		}
		require.NoError(t, b.client.Del(ctx, fence).Err())
		require.NoError(t, b.client.LPush(ctx, fence, "34").Err())
		err := b.Set(ctx, fence, 35, key, "text", 0)
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.NotErrorIs(t, err, leasing.ErrStale)
		require.Zero(t, b.client.Exists(ctx, key).Val())
	})
}

// Once a fence is gone, any token is admitted, as the documentation of Fence says.
func TestRedisAdmitsAnybodyOnceAFenceIsGone(t *testing.T) {
	b := openRedis(t, runScript, 3)
	ctx, a := t.Context(), b.key("a")
	require.NoError(t, b.Advance(ctx, a, 34))
	require.NoError(t, b.client.Del(ctx, a).Err())
	require.NoError(t, b.Advance(ctx, a, 33))
	require.NoError(t, b.Advance(ctx, a, 34))
	require.ErrorIs(t, b.Advance(ctx, a, 33), leasing.ErrStale)
}

func TestRedisRetentionBeginsAnewWithEachToken(t *testing.T) {
	b := openRedis(t, runScript, 3)
	ctx, a := t.Context(), b.key("a")
	retained := b.fenceWith(t, redisfence.Options{Retention: time.Hour})
	for _, show := range []func(){
		func() { require.NoError(t, retained.Advance(ctx, a, 33)) },
		func() { require.NoError(t, retained.Advance(ctx, a, 33)) },
		func() { require.NoError(t, retained.Advance(ctx, a, 34)) },
		func() { require.ErrorIs(t, retained.Advance(ctx, a, 33), leasing.ErrStale) },
	} {
		show()
		require.Greater(t, b.client.PTTL(ctx, a).Val(), 50*time.Minute)
		require.NoError(t, b.client.PExpire(ctx, a, time.Minute).Err())
	}
}

func TestRedisKeepsTheTokenInAFieldOfAHash(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		ctx, hash := t.Context(), b.key("user")
		checked := b.fenceWith(t, redisfence.Options{Field: "token"})
		rename := redisfence.NewScript(`return redis.call('HSET', KEYS[1], 'name', ARGV[1])`)
		set := func(token int64, name string) (any, error) {
			return checked.Run(ctx, rename, hash, token, []string{hash}, name)
		}
		added, err := set(33, "first")
		require.NoError(t, err)
		require.EqualValues(t, 1, added)
		_, err = set(34, "second")
		require.NoError(t, err)
		_, err = set(33, "late")
		require.Equal(t, &fencing.StaleError{Resource: hash, Token: 33, Seen: 34}, err)
		require.Equal(t, map[string]string{"token": "34", "name": "second"}, b.client.HGetAll(ctx, hash).Val())
	})
}

// Two servers of a service share a fence; neither has seen the other's requests.
func TestRedisBehindHTTPHandlers(t *testing.T) {
	b := openRedis(t, runScript, 3)
	serve := func(token string) (status int, err error) {
		handler := httpfence.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), httpfence.HandlerOptions{
			Fence:    fencing.CheckFirst(b.Advance),
			Resource: func(*http.Request) string { return b.key("report") },
		})
		recorder := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodPut, "/report", nil)
		request.Header.Set(httpfence.HeaderToken, token)
		handler.ServeHTTP(recorder, request)
		resp := recorder.Result()
		defer resp.Body.Close()
		return resp.StatusCode, httpfence.CheckResponse(resp)
	}
	for _, token := range []string{"33", "34"} {
		status, err := serve(token)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
	}
	_, err := serve("33")
	require.ErrorIs(t, err, leasing.ErrStale)
}

// Many holders with rising tokens write, each through connections of its own.
// The tokens never fall, in the order in which Redis ran the writes, and the
// stored value is that of the last writer.
func TestRedisConcurrentSafe(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		ctx, fence := t.Context(), b.key("fence")
		work := redisfence.NewScript(`
redis.call('SET', KEYS[1], ARGV[1])
return redis.call('RPUSH', KEYS[2], ARGV[1])`)
		const holders, writes = 40, 10
		admitted := make([]int, holders+1) // by token
		var wg sync.WaitGroup
		for token := int64(1); token <= holders; token++ {
			wg.Go(func() {
				for range writes {
					_, err := b.Run(ctx, work, fence, token, []string{b.key("value"), b.key("log")}, token)
					if err == nil {
						admitted[token]++
					} else if !errors.Is(err, leasing.ErrStale) {
						assert.NoError(t, err)
					}
				}
			})
		}
		wg.Wait()
		log, err := b.client.LRange(ctx, b.key("log"), 0, -1).Result()
		require.NoError(t, err)
		highest, counted := int64(0), make([]int, holders+1)
		for _, text := range log {
			token, err := fencing.ParseToken(text)
			require.NoError(t, err)
			require.GreaterOrEqual(t, token, highest)
			highest = token
			counted[token]++
		}
		require.Equal(t, admitted, counted, "each answer was true")
		require.EqualValues(t, holders, highest)
		require.Equal(t, writes, counted[holders])
		require.Equal(t, strconv.Itoa(holders), b.get(t, "value"))
		require.Equal(t, strconv.Itoa(holders), b.get(t, "fence"))
	})
}

// The example has the adapter for go-redis, and sets a key under a lease.
func Example_redis() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	checked, err := redisfence.New(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return redis.NewScript(script).Run(ctx, client, keys, args...).Result()
	}, redisfence.Options{})
	if err != nil {
		panic(err)
	}
	fence, err := redisfence.Key("report")
	if err != nil {
		panic(err)
	}
	publish := func(ctx context.Context, manager *leasing.Manager) error {
		return manager.Do(ctx, "reports/daily", func(ctx context.Context, lease *leasing.Lease) error {
			err := checked.Set(ctx, fence, lease.Token(), "report", "text", 0)
			if errors.Is(err, leasing.ErrStale) {
				fmt.Println("a later holder was here; nothing was written")
			}
			return err
		})
	}
	_ = publish
}
