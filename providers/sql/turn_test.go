package sqllease

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestTurnServesInOrderUrgentFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn turn
		require.NoError(t, turn.take(t.Context(), false))
		var served []int
		leaving, leave := context.WithCancel(t.Context())
		enter := func(ctx context.Context, n int, urgent bool) {
			go func() {
				if turn.take(ctx, urgent) == nil {
					served = append(served, n)
					turn.pass()
				}
			}()
			synctest.Wait()
		}
		enter(t.Context(), 3, false)
		enter(leaving, 4, false)
		enter(t.Context(), 5, false)
		enter(t.Context(), 1, true)
		enter(t.Context(), 2, true)
		leave()
		synctest.Wait()
		turn.pass()
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3, 5}, served)
		require.False(t, turn.taken)
	})
}

// Who is called in the moment in which they leave passes the turn on.
func TestTurnIsNotLostWithALeaver(t *testing.T) {
	for range 100 { // the leaver sees either first
		var turn turn
		require.NoError(t, turn.take(t.Context(), false))
		if turn.take(calledWhileLeaving{t.Context(), &turn}, false) == nil {
			turn.pass()
		}
		require.False(t, turn.taken)
	}
}

// calledWhileLeaving ends in the moment in which somebody waits for it, and
// passes the turn on in the same moment.
type calledWhileLeaving struct {
	context.Context
	turn *turn
}

func (c calledWhileLeaving) Done() <-chan struct{} {
	c.turn.pass()
	ended := make(chan struct{})
	close(ended)
	return ended
}

func (calledWhileLeaving) Err() error { return context.Canceled }

func TestLaneLeavesOneConnection(t *testing.T) {
	require.Nil(t, newLane(0), "a pool without bound")
	require.Nil(t, newLane(1))
	l := newLane(2)
	require.NoError(t, l.pass(t.Context(), func() error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.pass(ctx, func() error { return nil }), context.Canceled)
		return nil
	}))
	require.NoError(t, l.pass(t.Context(), func() error { return nil }))
}
