package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

var sentinels = []error{abstractions.ErrUnavailable, abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrClosed}

// means checks which sentinels an error matches, and that the error keeps its cause.
func means(t *testing.T, err, cause error, want ...error) {
	t.Helper()
	for _, sentinel := range sentinels {
		require.Equal(t, slices.Contains(want, sentinel), errors.Is(err, sentinel), "%v: %v", cause, sentinel)
	}
	require.ErrorIs(t, err, cause, "the library's error stays in the chain")
}

// T27: the code of a Redis error decides its meaning, never the text after the code. The
// errors come from a server, through go-redis.
func TestTrap_T27_CodeDecidesWhatAnErrorMeans(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	throttled := []error{abstractions.ErrUnavailable, abstractions.ErrThrottled}
	listed := map[string]bool{}
	for _, test := range []struct {
		codes []string
		want  []error
	}{
		{[]string{"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOCLOCK", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN"}, throttled},
		{[]string{"DENIED", "NOAUTH", "NOPERM", "WRONGPASS"}, []error{abstractions.ErrDenied}},
		{[]string{"ASK", "MOVED", "WRONGTYPE", "CROSSSLOT", "NOPROTO", "NOTOKEN", "OTHERVERSION"}, []error{abstractions.ErrNotSetUp}},
		{[]string{"ERR", "NOSCRIPT", "EXECABORT", "BUSYGROUP", "SOMETHING", "oom", "Oom"}, []error{abstractions.ErrUnavailable}},
	} {
		for _, code := range test.codes {
			listed[code] = true
			text := code + " OOM NOPERM READONLY held lost denied"
			cause := client.Eval(t.Context(), "return redis.error_reply(ARGV[1])", nil, text).Err()
			require.ErrorContains(t, cause, code)
			for _, err := range []error{cause, fmt.Errorf("wrapped: %w", cause)} {
				means(t, Of(err), err, test.want...)
			}
			means(t, Of(ScriptError(text)), ScriptError(text), test.want...) // the same from within a script
		}
	}
	for code := range maps.Keys(codes) {
		if _, foreseen := listed[code]; !foreseen && codes[code].class != providerkit.Unknown {
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
		means(t, Of(cause), cause, abstractions.ErrUnavailable)
	}
	means(t, Of(redis.ErrClosed), redis.ErrClosed, abstractions.ErrClosed)
	require.NoError(t, Of(nil))

	gone := Of(fmt.Errorf("wrapped: %w", context.Canceled))
	means(t, gone, context.Canceled, abstractions.ErrUnavailable)
	once := fmt.Errorf("%w: no reply", abstractions.ErrUnavailable)
	require.Equal(t, once, Of(once))
}
