package script

import (
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A reply that this code does not understand leaves the outcome unknown.
func TestStrangeRepliesLeaveTheOutcomeUnknown(t *testing.T) {
	for _, value := range []any{
		nil, "text", 1.5, []any{}, []any{"1"}, []any{int64(99)}, []any{int64(Seen)}, []any{int64(Seen), "x\ny", int64(1)}, []any{int64(Seen), redistest.Free(1).String()},
		[]any{int64(Seen), "1" + strings.Repeat("x", 40), int64(1)}, []any{int64(Seen), strings.Replace(redistest.Voted(7, "a", 1, 1, 0).String(), "60000", "x", 1), int64(1)},
		[]any{int64(Lost)}, []any{int64(Lost), int64(1)}, []any{int64(Broken), int64(1)},
		[]any{int64(Stale)}, []any{int64(Failed)}, []any{int64(Quarantined)},
	} {
		r := Reply{Value: value}
		_, err := r.Acquired("name")
		require.ErrorIs(t, err, abstractions.ErrUnavailable, "%v", value)
		require.NotErrorIs(t, err, abstractions.ErrHeld)
		err = r.Renewed()
		require.ErrorIs(t, err, abstractions.ErrUnavailable, "%v", value)
		require.NotErrorIs(t, err, abstractions.ErrLost)
		_, err = r.Broken()
		require.ErrorIs(t, err, abstractions.ErrUnavailable, "%v", value)
		_, err = r.Record("name")
		require.ErrorIs(t, err, abstractions.ErrUnavailable, "%v", value)
		require.ErrorIs(t, r.Done(), abstractions.ErrUnavailable, "%v", value)
	}
	err := (&List{Status: Quarantined, Rest: []any{int64(1500)}}).Unexpected()
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.NotErrorIs(t, err, abstractions.ErrThrottled)
	require.ErrorContains(t, err, (1500 * time.Millisecond).String())
}
