package fencing_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing/redisfence"
)

func TestRedisScriptSeesItsOwnKeysAndArgumentsOnly(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		script := redisfence.NewScript(`
local all = {#KEYS, #ARGV}
for _, key in ipairs(KEYS) do table.insert(all, key) end
for _, arg in ipairs(ARGV) do table.insert(all, arg) end
for _, read in ipairs({
  function() return fence end, function() return token end, function() return seen end,
  function() return field end, function() return highest end, function() return body end,
}) do
  if pcall(read) then return 'sees more' end
end
return all -- of them`)
		reply, err := b.Run(t.Context(), script, b.key("fence"), 7, []string{b.key("a"), b.key("b")}, "x", 5, "z")
		require.NoError(t, err)
		require.Equal(t, []any{int64(2), int64(3), b.key("a"), b.key("b"), "x", "5", "z"}, reply)
		reply, err = b.Run(t.Context(), script, b.key("fence"), 7, nil)
		require.NoError(t, err)
		require.Equal(t, []any{int64(0), int64(0)}, reply)
	})
}

// A script returns the same result with the check as without the check.
func TestRedisScriptReturnsWhatItWouldReturnAlone(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		require.NoError(t, b.client.Set(t.Context(), b.key("text"), "text", 0).Err())
		for _, body := range []string{
			``, `return nil`, `return false`, `return true`, `return 0`, `return 7`, `return ''`, `return 'text'`,
			`return {}`, `return {1, 'two', {3, false}}`, `return redis.status_reply('FINE')`,
			`return redis.call('GET', KEYS[1])`, `return redis.call('GET', KEYS[1] .. ':none')`,
			`return redis.error_reply('MINE says no')`, `return redis.pcall('INCR', KEYS[1])`,
			`redis.setresp(3); return {map={a=1}}`, `redis.setresp(3); return redis.call('GET', KEYS[1] .. ':none')`,
		} {
			keys := []string{b.key("text")}
			want, wantErr := b.client.Eval(t.Context(), body, keys).Result()
			if wantErr == redis.Nil { //nolint:errorlint // compared as in the documentation of go-redis
				wantErr = nil
			}
			got, err := b.Run(t.Context(), redisfence.NewScript(body), b.key("fence"), 7, keys)
			require.Equal(t, want, got, body)
			if wantErr == nil {
				require.NoError(t, err, body)
				continue
			}
			require.NotErrorIs(t, err, leasing.ErrStale)
			require.ErrorContains(t, err, wantErr.Error())
		}
	})
}

// If a script fails half-way, Redis does not undo its writes, and the token counts as seen.
func TestRedisScriptThatFailsHasShownItsToken(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		ctx, fence, key := t.Context(), b.key("fence"), b.key("text")
		script := redisfence.NewScript("redis.call('SET', KEYS[1], 'half')\n\nredis.call('INCR', KEYS[1])")
		_, err := b.Run(ctx, script, fence, 34, []string{key})
		require.ErrorContains(t, err, "not an integer")
		require.ErrorContains(t, err, "user_script:3", "the line is the script's own")
		require.NotErrorIs(t, err, leasing.ErrStale)
		require.Equal(t, "half", b.get(t, "text"))
		require.ErrorIs(t, b.Advance(ctx, fence, 33), leasing.ErrStale)

		_, err = b.Run(ctx, redisfence.NewScript("return\n  1 +"), fence, 35, nil)
		require.ErrorContains(t, err, "user_script:3", "where Lua meets the end")
		require.Equal(t, "34", b.get(t, "fence"), "what does not compile does not run")
	})
}

func TestRedisScriptWithAFirstLineForTheEngine(t *testing.T) {
	onRedis(t, func(t *testing.T, b redisBackend) {
		run := func(body string, token int64) (any, error) {
			return b.Run(t.Context(), redisfence.NewScript(body), b.key("fence"), token, nil)
		}
		reply, err := run("#!lua flags=allow-oom\nreturn 'fine'", 34)
		require.NoError(t, err)
		require.Equal(t, "fine", reply)
		_, err = run("#!lua\nreturn 'late'", 33)
		require.ErrorIs(t, err, leasing.ErrStale)
		_, err = run("#!lua\nlocal a = 1\nreturn a + nil", 34)
		require.ErrorContains(t, err, "user_script:3")
		reply, err = run("#!lua", 34)
		require.NoError(t, err)
		require.Nil(t, reply)
		_, err = run("#!lua flags=no-writes\nreturn 1", 35)
		require.ErrorContains(t, err, "read-only script", "the check writes")
	})
}
