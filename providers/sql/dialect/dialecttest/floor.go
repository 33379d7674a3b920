package dialecttest

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/stretchr/testify/require"
)

// T127, in two parts, since the test can't set a server's clock: a sweep keeps the highest token that it deletes, and each
// statement that issues tokens gives a new name a token above the floor.
func theFloorIsKeptAndObeyed(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("retention", "1h")
		var highest int64
		for _, name := range []string{"a", "b"} {
			grant, err := p.Acquire(ctx, ClaimOf(name, time.Minute))
			require.NoError(t, err)
			require.NoError(t, p.Release(ctx, ReleaseOf(grant)))
			highest = max(highest, grant.Token)
		}
		Idle(t, p, 2*time.Hour)
		n, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, 1, CountRows(t, p, "{lease}"))
		require.Equal(t, 1, CountRows(t, p, "{lease} WHERE name = '' AND token = "+text(highest)))

		floor := time.Now().Add(8 * time.Hour).UnixMicro()
		setToken := func(name string, token int64) {
			Execute(ctx, t, p, "UPDATE {lease} SET token = "+text(token)+", version = version + 1 WHERE name = '"+name+"'")
		}
		setToken("", floor)
		several := make(chan abstractions.Grant, 8)
		for range cap(several) { // these may share a statement
			go func() {
				grant, _ := p.Acquire(ctx, ClaimOf(abstractions.NewID(), time.Minute))
				several <- grant
			}()
		}
		for range cap(several) {
			require.Greater(t, (<-several).Token, floor)
		}
		alone, err := p.Acquire(ctx, ClaimOf("alone", time.Minute))
		require.NoError(t, err)
		require.Equal(t, floor+1, alone.Token)
		require.NoError(t, p.Release(ctx, ReleaseOf(alone)))
		alone, err = p.Acquire(ctx, ClaimOf("alone", time.Minute))
		require.NoError(t, err)
		require.Equal(t, floor+2, alone.Token)
		require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: "untaken", ID: abstractions.NewID()}))
		untaken, err := p.Acquire(ctx, ClaimOf("untaken", time.Minute))
		require.NoError(t, err)
		require.Greater(t, untaken.Token, floor)

		page, err := p.List(ctx, abstractions.ListRequest{Limit: 1000})
		require.NoError(t, err)
		require.Len(t, page.Records, cap(several)+2)
		setToken("", abstractions.MaxToken)
		_, err = p.Acquire(ctx, ClaimOf("late", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	})
}

func text(token int64) string { return strconv.FormatInt(token, 10) }

// T128: no token follows the last token, even if an operator wrote the last token by hand, and tokens never wrap around. Acquires
// of other names at the same time succeed.
func noTokenFollowsTheLast(t *testing.T, d Database) {
	for _, parameters := range [][]string{nil, {"history", "true"}} {
		d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
			ctx, p := Bounded(t), open(parameters...)
			lasts := map[string]int64{"before": abstractions.MaxToken - 1, "last": abstractions.MaxToken, "over": abstractions.MaxToken + 1, "int64": math.MaxInt64}
			for name, token := range lasts {
				grant, err := p.Acquire(ctx, ClaimOf(name, time.Minute))
				require.NoError(t, err)
				require.NoError(t, p.Release(ctx, ReleaseOf(grant)))
				Execute(ctx, t, p, "UPDATE {lease} SET token = "+text(token)+", version = version + 1 WHERE name = '"+name+"'")
			}
			outcomes := make(chan error, 5)
			for range cap(outcomes) - 1 {
				go func() {
					_, err := p.Acquire(ctx, ClaimOf(abstractions.NewID(), time.Minute))
					outcomes <- err
				}()
			}
			go func() {
				_, err := p.Acquire(ctx, ClaimOf("int64", time.Minute))
				outcomes <- err
			}()
			var refused int
			for range cap(outcomes) {
				if err := <-outcomes; err != nil {
					require.ErrorIs(t, err, abstractions.ErrNotSetUp)
					refused++
				}
			}
			require.Equal(t, 1, refused)
			for range 2 {
				for name, token := range lasts {
					grant, err := p.Acquire(ctx, ClaimOf(name, time.Minute))
					if name == "before" && err == nil {
						require.EqualValues(t, abstractions.MaxToken, grant.Token)
						require.NoError(t, p.Release(ctx, ReleaseOf(grant)))
						continue
					}
					require.ErrorIs(t, err, abstractions.ErrNotSetUp, name)
					require.True(t, abstractions.NotApplied(err), name)
					require.ErrorContains(t, err, text(max(token, abstractions.MaxToken)))
					record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: name})
					require.NoError(t, err)
					require.False(t, record.Held)
				}
			}
		})
	}
}
