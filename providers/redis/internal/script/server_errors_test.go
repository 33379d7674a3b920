package script

import (
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// T171: if the server fails an operation in the middle of a call, only that operation gets the error. As the error of the whole
// call, it would deny that earlier operations took effect. If the first operation fails, its error is the call's, so that the
// client library closes the connection.
func TestTrap_T171_AServersErrorSaysNothingOfWhatWasDoneBefore(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	const run = "local function run(k, a)\n"
	naming := Naming{Prefix: "leasing", Retention: time.Hour}
	for _, code := range []string{"READONLY", "MASTERDOWN", "LOADING", "MISCONF", "CLUSTERDOWN", "NOREPLICAS"} {
		text := strings.Replace(strings.Replace(Acquire.Text, run, run+"if find(KEYS[k + 1], 'bad') then error({err = '"+code+" why'}) end\n", 1),
			"and keep ~= '0'", "and not find(key, 'bad') and keep ~= '0'", 1)
		call := func(names ...string) *redis.Cmd {
			var keys []string
			args := []any{"0", "", "60000", "120000"}
			for _, name := range names {
				op := naming.Keys(code + name).Acquire(Claim{ID: name, TTL: time.Minute})
				keys = append(keys, op.Keys[0], op.Keys[1])
				args = append(args, op.Args[0], op.Args[1], op.Args[2], op.Args[3])
			}
			return client.Eval(t.Context(), text, keys, args...)
		}
		require.True(t, redis.HasErrorPrefix(call("bad", "after").Err(), code+" "))
		require.Zero(t, client.Exists(t.Context(), naming.Keys(code+"after").Name).Val(), "nothing was done")
		replies, err := call("before", "bad", "after").Slice()
		require.NoError(t, err)
		require.Len(t, replies, 3)
		for _, i := range []int{0, 2} {
			_, err := Reply{Value: replies[i]}.Acquired("name")
			require.NoError(t, err)
		}
		require.ErrorContains(t, Reply{Value: replies[1]}.Failure(), code+" why")
	}
}
