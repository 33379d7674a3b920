package redlock

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

// A node whose vote is unknown may hold the claim.
func TestRedlockVoteThatFailedMayHaveBeenCast(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		reply  script.Reply
		unsure bool
	}{
		"no answer":          {script.Reply{Err: abstractions.ErrUnavailable}, true},
		"not sent":           {script.Reply{Err: errRefused}, false},
		"nothing":            {script.Reply{}, true},
		"a number":           {script.Reply{Value: int64(1)}, true},
		"an unknown status":  {script.Reply{Value: []any{int64(99)}}, true},
		"a strange vote":     {script.Reply{Value: "1 x"}, true},
		"the script's error": {script.Reply{Value: []any{int64(script.Failed), "OOM no memory"}}, false},
		"a quarantine":       {script.Reply{Value: []any{int64(script.Quarantined), int64(5), ""}}, false},
	} {
		v := vote{choice: forUs, token: 7}
		v.readVote(c.reply, "name")
		require.Equal(t, noVote, v.choice, what)
		require.ErrorIs(t, v.err, abstractions.ErrUnavailable, what)
		require.Equal(t, c.unsure, v.unsure, what)
	}
}
