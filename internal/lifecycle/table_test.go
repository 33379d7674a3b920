package lifecycle

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

func at(d time.Duration) trust.Instant { return trust.Instant{Mono: d, Boot: d} }

// leaseIn returns a lease with a TTL of a minute that was acquired at 0 s, and is in the given phase at 1 s. From 60 s on it is
// not trusted.
func leaseIn(t *testing.T, phase Phase) *Lease {
	t.Helper()
	settings := &Settings{TTL: time.Minute, FirstTTL: time.Minute, Cadence: 30 * time.Second}
	l := New(&Rules{RequestTimeout: 10 * time.Second, Granularity: time.Millisecond, MinTTL: time.Second}, settings)
	require.True(t, l.Granted(at(time.Second), at(0), time.Minute, false))
	fx := l.Begin(at(time.Second), at(0), abstractions.Grant{TTL: time.Minute}, 0)
	require.Equal(t, Effects{Reschedule: true, Event: Event{Kind: abstractions.EventAcquired, Remaining: 59 * time.Second}}, fx)
	switch phase {
	case Ending:
		l.EndWork(errors.New("closed"))
	case Releasing:
		before, await, fx := l.AskRelease(at(time.Second))
		require.Equal(t, []any{Working, false, Effects{Over: true, Settled: true, Cause: abstractions.ErrReleased}}, []any{before, await, fx})
	case Ended:
		l.Lose(&abstractions.LostError{Reason: abstractions.LostTaken})
	}
	require.Equal(t, phase, l.Phase())
	return &l
}

// Each input has the effects in the table of doc.go, for a lease that is held and for a lease that is over.
func TestTable(t *testing.T) {
	yes := &Answer{Grant: abstractions.Grant{TTL: time.Minute}, Applied: true}
	no := &Answer{Err: MarkNoAnswer(abstractions.ErrUnavailable), Applied: true}
	lost := &Answer{Err: abstractions.ErrLost, Lost: &abstractions.LostError{Reason: abstractions.LostTaken}}
	for _, phase := range []Phase{Working, Ending, Releasing, Ended} {
		held := phase < Releasing
		inputs := map[string]func(t *testing.T, l *Lease){
			"Expire, in time": func(t *testing.T, l *Lease) { require.Zero(t, l.Expire(at(59*time.Second))) },
			"Expire, later": func(t *testing.T, l *Lease) {
				fx := l.Expire(at(time.Minute))
				require.Equal(t, held, fx.Lost != nil && fx.Over)
				require.Equal(t, phase == Working, fx.Cause != nil, "the context ends once")
			},
			"Due": func(t *testing.T, l *Lease) {
				renew, fx := l.Due(at(30 * time.Second))
				require.Equal(t, []any{held, Effects{Reschedule: held}}, []any{renew, fx})
				renew, _ = l.Due(at(31 * time.Second))
				require.False(t, renew, "one is under way")
				mine, _ := l.AskRenewal()
				require.False(t, mine, "it joins")
			},
			"AskRenewal": func(t *testing.T, l *Lease) {
				mine, usedUp := l.AskRenewal()
				require.Equal(t, []bool{held, false}, []bool{mine, usedUp})
			},
			"BeginRenewal": func(t *testing.T, l *Lease) {
				r, ok, fx := l.BeginRenewal(at(30 * time.Second))
				require.Equal(t, held, ok)
				require.Equal(t, !held, fx.Settled, "nothing waits for a request that is not sent")
				if ok {
					require.Equal(t, Renewal{TTL: time.Minute, Bound: 10 * time.Second}, r)
				}
			},
			"Answered: yes": func(t *testing.T, l *Lease) {
				result, margin, fx := l.Answered(at(30*time.Second), at(32*time.Second), yes, 0)
				require.True(t, fx.Settled)
				if !held {
					require.Equal(t, Late, result)
					require.Equal(t, phase == Ended, fx.CleanUp != nil)
					require.NotEqual(t, at(90*time.Second), l.until, "no trust comes back")
					return
				}
				require.Equal(t, []any{Renewed, 28 * time.Second, at(90 * time.Second)}, []any{result, margin, l.until})
			},
			"Answered: no": func(t *testing.T, l *Lease) {
				result, _, fx := l.Answered(at(30*time.Second), at(32*time.Second), no, 0)
				require.Equal(t, phase == Ended, fx.CleanUp != nil)
				if held {
					require.Equal(t, Failed, result)
					require.Equal(t, []any{int8(1), true, 28 * time.Second}, []any{fx.Failing, fx.Event.WillRetry, fx.Event.Remaining})
				}
			},
			"Answered: no, too late": func(t *testing.T, l *Lease) {
				_, _, fx := l.Answered(at(30*time.Second), at(time.Minute), no, 0)
				require.Equal(t, held, fx.Lost != nil && fx.CleanUp != nil && fx.Event.Kind == abstractions.EventRenewalFailed && fx.Failing == 0)
			},
			"Answered: lost": func(t *testing.T, l *Lease) {
				_, _, fx := l.Answered(at(30*time.Second), at(32*time.Second), lost, 0)
				require.Equal(t, held, fx.Lost != nil)
				require.Nil(t, fx.CleanUp)
			},
			"RepliedLate": func(t *testing.T, l *Lease) {
				require.Equal(t, phase == Ended, l.RepliedLate(at(32*time.Second), true) != nil)
				require.Nil(t, l.RepliedLate(at(32*time.Second), false))
			},
			"RenewNow": func(t *testing.T, l *Lease) {
				require.Equal(t, Effects{Reschedule: held}, l.RenewNow(at(5*time.Second)))
				renew, _ := l.Due(at(5 * time.Second))
				require.Equal(t, held, renew)
			},
			"EndWork": func(t *testing.T, l *Lease) {
				cause := errors.New("of the test")
				require.Equal(t, phase == Working, errors.Is(l.EndWork(cause).Cause, cause))
				require.Equal(t, max(phase, Ending), l.Phase())
			},
			"AskRelease": func(t *testing.T, l *Lease) {
				before, await, fx := l.AskRelease(at(2 * time.Second))
				require.Equal(t, []any{phase, false, held}, []any{before, await, fx.Over})
			},
			"AskRelease, later": func(t *testing.T, l *Lease) {
				before, _, fx := l.AskRelease(at(time.Minute))
				require.Equal(t, []any{phase != Releasing, held}, []any{before == Ended, fx.Lost != nil})
			},
			"Lose": func(t *testing.T, l *Lease) {
				fx := l.Lose(&abstractions.LostError{Reason: abstractions.LostBroken})
				require.Equal(t, held, fx.Lost != nil && l.Phase() == Ended)
			},
		}
		for name, input := range inputs {
			t.Run(fmt.Sprintf("%s in phase %d", name, phase), func(t *testing.T) { input(t, leaseIn(t, phase)) })
		}
	}
}

// A claim that was given up is cleaned up, and is cleaned up again if a request returns later.
func TestAbandonedClaim(t *testing.T) {
	l := New(&Rules{}, &Settings{FirstTTL: time.Minute})
	l.Unanswered(at(time.Second))
	require.True(t, l.Ambiguous())
	require.Equal(t, CleanUp{Until: at(61 * time.Second)}, l.Abandon())
	require.Equal(t, &CleanUp{Until: at(70 * time.Second)}, l.RepliedLate(at(10*time.Second), true))
	require.Nil(t, l.RepliedLate(at(10*time.Second), false))
}

// An unanswered acquire may land until its TTL has passed. So the claim is cleaned up after the release, by its ID alone.
func TestAnAmbiguousAcquire(t *testing.T) {
	l := New(&Rules{}, &Settings{TTL: time.Minute, FirstTTL: time.Minute, Cadence: 30 * time.Second})
	l.Unanswered(at(0))
	require.True(t, l.Granted(at(2*time.Second), at(time.Second), time.Minute, false))
	l.Begin(at(2*time.Second), at(time.Second), abstractions.Grant{TTL: time.Minute}, 0)
	l.AskRelease(at(3 * time.Second))
	require.Equal(t, &CleanUp{Until: at(time.Minute), ByID: true}, l.AfterRelease(at(3*time.Second), false, false))
	require.Nil(t, l.AfterRelease(at(time.Minute), false, false))
}
