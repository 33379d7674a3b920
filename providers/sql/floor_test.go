package sqllease

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T127: the clock is ahead while a name is used and forgotten, and is set right later. No later token is lower, neither of the name
// nor of another name.
func TestTrap_T127_AForgottenTokenOutlivesAClockThatWasAhead(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		ctx, open := bounded(t), databases["sqlite"](t)
		p := open("retention", "1h")
		clock := clockOf(p, *later(morning, 0, 8*time.Hour))
		before, err := p.Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Release(ctx, releaseOf(before)))
		clock.Store(later(morning, 2*time.Hour, 8*time.Hour))
		n, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		clock.Store(later(morning, 2*time.Hour, 0))
		for _, name := range []string{"n", "other"} {
			after, err := p.Acquire(ctx, claimOf(name, time.Minute))
			require.NoError(t, err)
			require.Greater(t, after.Token, before.Token)
		}
		released := abstractions.ReleaseRequest{Name: "third", ID: abstractions.NewID()} // makes a row without a token
		require.NoError(t, p.Release(ctx, released))
		after, err := p.Acquire(ctx, claimOf("third", time.Minute))
		require.NoError(t, err)
		require.Greater(t, after.Token, before.Token)
	})
}

// T127, in halves, on servers whose clocks the test can't set: a sweep keeps the highest token that it deletes, and the first tokens of names
// are above the floor, in each statement that gives tokens.
func TestTrap_T127_TheFloorIsKeptAndHeeded(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("retention", "1h")
		var highest int64
		for _, name := range []string{"a", "b"} {
			grant, err := p.Acquire(ctx, claimOf(name, time.Minute))
			require.NoError(t, err)
			require.NoError(t, p.Release(ctx, releaseOf(grant)))
			highest = max(highest, grant.Token)
		}
		idle(t, p, 2*time.Hour)
		n, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, 1, countRows(t, p, "{lease}"))
		require.Equal(t, 1, countRows(t, p, "{lease} WHERE name = '' AND token = "+text(highest)))

		floor := time.Now().Add(8 * time.Hour).UnixMicro()
		setToken := func(name string, token int64) {
			execute(ctx, t, p.driver.backend, "UPDATE {lease} SET token = "+text(token)+", version = version + 1 WHERE name = '"+name+"'")
		}
		setToken("", floor)
		several := make(chan abstractions.Grant, 8)
		for range cap(several) { // which may share a statement
			go func() {
				grant, _ := p.Acquire(ctx, claimOf(abstractions.NewID(), time.Minute))
				several <- grant
			}()
		}
		for range cap(several) {
			require.Greater(t, (<-several).Token, floor)
		}
		alone, err := p.Acquire(ctx, claimOf("alone", time.Minute))
		require.NoError(t, err)
		require.Equal(t, floor+1, alone.Token)
		require.NoError(t, p.Release(ctx, releaseOf(alone)))
		alone, err = p.Acquire(ctx, claimOf("alone", time.Minute))
		require.NoError(t, err)
		require.Equal(t, floor+2, alone.Token)
		require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: "untaken", ID: abstractions.NewID()}))
		untaken, err := p.Acquire(ctx, claimOf("untaken", time.Minute))
		require.NoError(t, err)
		require.Greater(t, untaken.Token, floor)

		page, err := p.List(ctx, abstractions.ListRequest{Limit: 1000})
		require.NoError(t, err)
		require.Len(t, page.Records, cap(several)+2)
		setToken("", abstractions.MaxToken)
		_, err = p.Acquire(ctx, claimOf("late", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	})
}

func text(token int64) string { return strconv.FormatInt(token, 10) }

// T128: no token follows the last, and none wraps, although an operator has written it by hand. Names that are asked for at the same time are granted.
func TestTrap_T128_NoTokenFollowsTheLast(t *testing.T) {
	for _, parameters := range [][]string{nil, {"history", "true"}} {
		onEach(t, func(t *testing.T, open func(...string) *Provider) {
			ctx, p := bounded(t), open(parameters...)
			lasts := map[string]int64{"before": abstractions.MaxToken - 1, "last": abstractions.MaxToken, "over": abstractions.MaxToken + 1, "int64": math.MaxInt64}
			for name, token := range lasts {
				grant, err := p.Acquire(ctx, claimOf(name, time.Minute))
				require.NoError(t, err)
				require.NoError(t, p.Release(ctx, releaseOf(grant)))
				execute(ctx, t, p.driver.backend, "UPDATE {lease} SET token = "+text(token)+", version = version + 1 WHERE name = '"+name+"'")
			}
			outcomes := make(chan error, 5)
			for range cap(outcomes) - 1 {
				go func() {
					_, err := p.Acquire(ctx, claimOf(abstractions.NewID(), time.Minute))
					outcomes <- err
				}()
			}
			go func() {
				_, err := p.Acquire(ctx, claimOf("int64", time.Minute))
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
					grant, err := p.Acquire(ctx, claimOf(name, time.Minute))
					if name == "before" && err == nil {
						require.EqualValues(t, abstractions.MaxToken, grant.Token)
						require.NoError(t, p.Release(ctx, releaseOf(grant)))
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
