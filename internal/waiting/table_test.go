package waiting

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

var (
	start   = time.Unix(1_700_000_000, 0)
	polling = Rules{MinPoll: time.Second, MaxPoll: 8 * time.Second, RefusalTimeout: time.Minute}
	pushing = Rules{MinPoll: time.Second, MaxPoll: 8 * time.Second, RefusalTimeout: time.Minute, Wakeups: true}
	queues  = Rules{MinPoll: time.Second, MaxPoll: 8 * time.Second, RefusalTimeout: time.Minute, Wakeups: true, Queued: true}
)

// queueIn returns a queue in a state of the table: without waiters, with waiters 1 and 2 behind the head 9, or with the same
// waiters after the head has left while the outcome of its request was unknown.
func queueIn(state string, rules *Rules) *Queue[int, string] {
	q := New[int, string](rules)
	if state == "idle" {
		return q
	}
	for _, n := range []int{9, 1, 2} {
		q.Join(n)
	}
	if state == "blocked" {
		q.Leave(9, "", "", true)
	}
	return q
}

// Each input of a queue has the effects in the first table of doc.go.
func TestTableOfQueues(t *testing.T) {
	for _, state := range []string{"idle", "with a head", "blocked"} {
		idle, headed, blocked := state == "idle", state == "with a head", state == "blocked"
		wakesHead := map[bool]int{true: 9}[headed]
		inputs := map[string]func(t *testing.T, q *Queue[int, string]){
			"Join": func(t *testing.T, q *Queue[int, string]) { require.Equal(t, idle, q.Join(3)) },
			"Leave of the first": func(t *testing.T, q *Queue[int, string]) {
				if idle {
					return
				}
				blocks, wake := q.Leave(q.Waiters()[0], "", "", false)
				require.Equal(t, []any{false, map[bool]int{true: 1}[headed]}, []any{blocks, wake})
			},
			"Leave of the first, ambiguous": func(t *testing.T, q *Queue[int, string]) {
				if idle {
					return
				}
				blocks, wake := q.Leave(q.Waiters()[0], "", "", true)
				require.Equal(t, []any{headed, 0}, []any{blocks, wake})
			},
			"Leave of the last, ambiguous": func(t *testing.T, q *Queue[int, string]) {
				if idle {
					return
				}
				blocks, wake := q.Leave(2, "", "", true)
				require.Equal(t, []any{false, 0}, []any{blocks, wake})
			},
			"Settled": func(t *testing.T, q *Queue[int, string]) {
				if !blocked {
					return
				}
				require.Equal(t, 1, q.Settled())
			},
			"Settled, when all have left": func(t *testing.T, q *Queue[int, string]) {
				if !blocked {
					return
				}
				q.Leave(1, "", "", false)
				q.Leave(2, "", "", false)
				require.False(t, q.Idle())
				require.Zero(t, q.Settled())
				require.True(t, q.Idle())
			},
			"Ending": func(t *testing.T, q *Queue[int, string]) {
				q.holder = "a"
				require.Zero(t, q.Ending("a"), "the waiters poll")
				q.rules = &queues
				require.Equal(t, wakesHead, q.Ending("a"))
				require.Zero(t, q.Ending("b"))
			},
			"Ended": func(t *testing.T, q *Queue[int, string]) {
				q.holder = "a"
				wake, later := q.Ended("a", start, start.Add(time.Second))
				require.Equal(t, []any{wakesHead, time.Duration(0), "", 1}, []any{wake, later, q.Holder(), q.yield.leases})
			},
			"Ended, in a long row": func(t *testing.T, q *Queue[int, string]) {
				wake, later := q.Ended("a", start, start.Add(time.Hour))
				require.Equal(t, []any{0, 8 * time.Second}, []any{wake, later})
			},
			"Ended, in a long row, where the backend queues": func(t *testing.T, q *Queue[int, string]) {
				q.rules = &queues
				wake, later := q.Ended("a", start, start.Add(time.Hour))
				require.Equal(t, []any{wakesHead, time.Duration(0)}, []any{wake, later})
			},
			"Ended, while another lease has the name": func(t *testing.T, q *Queue[int, string]) {
				q.holder = "b"
				wake, later := q.Ended("a", start, start.Add(time.Hour))
				require.Equal(t, []any{0, time.Duration(0), "b"}, []any{wake, later, q.Holder()})
			},
			"Wake": func(t *testing.T, q *Queue[int, string]) { require.Equal(t, wakesHead, q.Wake()) },
		}
		for name, input := range inputs {
			t.Run(name+", "+state, func(t *testing.T) { input(t, queueIn(state, &polling)) })
		}
	}
}

func TestFirstStepOfAHead(t *testing.T) {
	mine := errors.New("held by this manager")
	begin := func(q *Queue[int, string], err error) (Head, Step) { return q.Begin(start, err) }
	q := queueIn("with a head", &pushing)
	_, first := begin(q, nil)
	require.Equal(t, Step{Ask: true}, first)
	q.Answered(start.Add(-80*time.Second), held(time.Minute))
	_, first = begin(q, nil)
	require.Equal(t, Step{Subscribe: true}, first, "others had the name a short while ago")
	q.Answered(start.Add(-81*time.Second), held(time.Minute))
	_, first = begin(q, nil)
	require.Equal(t, Step{Ask: true}, first)
	q.yield.yieldUntil = start.Add(time.Second)
	_, first = begin(q, nil)
	require.Equal(t, Step{Pause: time.Second}, first, "others get their turn")
	_, first = begin(q, nil)
	require.Equal(t, Step{Ask: true}, first, "which is for one head")
	q.Leave(9, "a", "id", false)
	h, first := begin(q, mine)
	require.Equal(t, Step{Pause: 8 * time.Second}, first, "the name is ours")
	require.Equal(t, Step{Stop: true, End: errCancelled, Last: mine}, h.Stopped(errCancelled, &Answer{}))
}

var errCancelled = errors.New("cancelled")

func held(left time.Duration) *Answer {
	h := &abstractions.HeldError{Holder: abstractions.Record{Held: true, Token: 7, Fingerprint: abstractions.FingerprintOf("other"), Now: start, ExpiresAt: start.Add(left)}}
	return &Answer{Err: h, Held: h}
}

// Each input of a head has the effects in the second table of doc.go, for a head that polls, that may register, or that is
// registered, and for a head whose limit has passed.
func TestTableOfHeads(t *testing.T) {
	noAnswer, final := errors.New("no answer"), errors.New("invalid")
	throttled := &Answer{Err: abstractions.ErrThrottled, Throttled: true, RetryAfter: time.Hour}
	for _, state := range []string{"polling", "unregistered", "registered", "wake-ups ended", "limit passed"} {
		passed := state == "limit passed"
		unless := func(s Step, last error) Step {
			if passed {
				return Step{Stop: true, Last: last, Failed: s.Failed}
			}
			return s
		}
		inputs := map[string]func(t *testing.T, h *Head){
			"held": func(t *testing.T, h *Head) {
				a := held(time.Hour)
				want := map[string]Step{
					"polling": {Pause: time.Second}, "wake-ups ended": {Pause: time.Second},
					"unregistered": {Subscribe: true}, "registered": {Pause: 8 * time.Second},
				}[state]
				require.Equal(t, unless(want, a.Err), h.Answered(start, a, false, 0))
			},
			"held for a millisecond": func(t *testing.T, h *Head) {
				if s := h.Answered(start, held(time.Millisecond), false, 0.5); !s.Stop && !s.Subscribe {
					require.Equal(t, 2500*time.Microsecond, s.Pause)
					require.Equal(t, 1500*time.Microsecond, h.Answered(start, held(0), false, 0.5).Pause-1500*time.Microsecond, "the pauses double")
				}
			},
			"throttled": func(t *testing.T, h *Head) {
				want := Step{Pause: time.Minute, IgnoreWakeups: true, Failed: 1}
				require.Equal(t, unless(want, throttled.Err), h.Answered(start, throttled, false, 0))
				require.Equal(t, Step{Stop: true, Last: throttled.Err}, h.LimitPassed(start.Add(time.Hour)))
			},
			"no answer": func(t *testing.T, h *Head) {
				for n := range 5 {
					want := Step{Pause: time.Second << min(n, 3), Failed: n + 1}
					require.Equal(t, unless(want, noAnswer), h.Answered(start, &Answer{Err: noAnswer}, false, 0))
				}
				require.Equal(t, 0, h.Answered(start, held(time.Hour), false, 0).Failed)
			},
			"final": func(t *testing.T, h *Head) {
				require.Equal(t, Step{Stop: true, End: final}, h.Answered(start, &Answer{Err: final, Final: true}, false, 0))
			},
			"refused for too long": func(t *testing.T, h *Head) {
				s := h.Answered(start, &Answer{Err: abstractions.ErrDenied, Refused: true}, true, 0)
				require.True(t, s.Stop)
				require.ErrorIs(t, s.End, abstractions.ErrDenied)
			},
			"Woken": func(t *testing.T, h *Head) { require.Equal(t, Step{Ask: true}, h.Woken(false)) },
			"Woken by the end of the wake-ups": func(t *testing.T, h *Head) {
				require.Equal(t, Step{Ask: true}, h.Woken(true))
				a := held(time.Hour)
				require.Equal(t, unless(Step{Pause: time.Second}, a.Err), h.Answered(start, a, false, 0), "it polls")
			},
			"LimitPassed": func(t *testing.T, h *Head) {
				a := held(time.Hour)
				h.Answered(start, a, false, 0)
				require.Equal(t, Step{Stop: true, Last: a.Err}, h.LimitPassed(start.Add(time.Second-1)), "the answer is fresh")
				require.Equal(t, Step{Ask: true}, h.LimitPassed(start.Add(time.Second)))
			},
			"Stopped": func(t *testing.T, h *Head) {
				require.Equal(t, Step{Stop: true, End: ErrLimit}, h.Stopped(ErrLimit, &Answer{}), "there was no answer")
				a := held(time.Hour)
				require.Equal(t, Step{Stop: true, End: ErrLimit, Last: a.Err}, h.Stopped(ErrLimit, a))
				require.Equal(t, Step{Stop: true, End: errCancelled, Last: a.Err}, h.Stopped(errCancelled, &Answer{Err: noAnswer}))
			},
		}
		for name, input := range inputs {
			t.Run(name+", "+state, func(t *testing.T) {
				h := Head{rules: &pushing}
				switch state {
				case "polling":
					h.rules = &polling
				case "registered":
					require.Equal(t, Step{Ask: true}, h.Subscribed(true, 0))
				case "wake-ups ended":
					h.Subscribed(true, 0)
					h.Woken(true)
				case "limit passed":
					require.Equal(t, Step{Ask: true}, h.LimitPassed(start))
				}
				input(t, &h)
			})
		}
	}
}

func TestARegistrationThatFails(t *testing.T) {
	h := Head{rules: &pushing}
	require.Equal(t, Step{Ask: true}, h.Subscribed(false, 0), "it has not asked yet")
	for n := range 3 {
		require.Equal(t, Step{Subscribe: true}, h.Answered(start, held(time.Hour), false, 0))
		require.Equal(t, Step{Pause: time.Second << n}, h.Subscribed(false, 0), "it polls")
	}
	require.Equal(t, Step{Subscribe: true}, h.Answered(start, held(time.Hour), false, 0))
	require.Equal(t, Step{Ask: true}, h.Subscribed(true, 0))
}

// A refusal ends the wait of a queue once the backend has answered only with refusals for RefusalTimeout, even if the head has changed.
func TestRefusals(t *testing.T) {
	q := queueIn("with a head", &polling)
	refusal, noAnswer := &Answer{Err: abstractions.ErrDenied, Refused: true}, &Answer{Err: abstractions.ErrUnavailable}
	for _, c := range []struct {
		after   time.Duration
		answer  *Answer
		tooLong bool
	}{
		{0, refusal, false}, {59 * time.Second, refusal, false}, {59 * time.Second, noAnswer, false}, {time.Minute, refusal, true},
		{time.Minute, held(time.Hour), false}, {61 * time.Second, refusal, false}, {121 * time.Second, refusal, true},
		{121 * time.Second, &Answer{Throttled: true}, false}, {122 * time.Second, refusal, false},
	} {
		require.Equal(t, c.tooLong, q.Answered(start.Add(c.after), c.answer), c.after)
	}
	q.Leave(9, "a lease", "", false)
	require.False(t, q.Answered(start.Add(time.Hour), refusal), "a grant is another answer")
}

// Without wake-ups the head asks more often while the name changes hands.
func TestBackoffOfPolling(t *testing.T) {
	h := Head{rules: &polling}
	a := held(time.Hour)
	for _, want := range []time.Duration{1, 2, 4, 8, 8} {
		require.Equal(t, want*time.Second, h.Answered(start, a, false, 0).Pause)
	}
	require.Equal(t, 4*time.Second, h.Answered(start, a, false, 0.9999999).Pause.Round(time.Millisecond), "the pause is jittered by a half")
	for _, want := range []time.Duration{8, 2, 1} {
		a.Held.Holder.Token++
		require.Equal(t, want*time.Second, h.Answered(start, a, false, 0).Pause)
	}
	a.Held.RetryAfter = time.Millisecond
	require.Equal(t, time.Millisecond, h.Answered(start, a, false, 0).Pause, "the backend suggests a shorter one")
}

func TestWaitError(t *testing.T) {
	end, last := errors.New("cancelled"), held(0).Err
	require.NoError(t, WaitError(nil, nil))
	require.Equal(t, last, WaitError(nil, last))
	require.Equal(t, last, WaitError(ErrLimit, last))
	require.Equal(t, end, WaitError(end, nil))
	require.Equal(t, end, WaitError(end, fmt.Errorf("%w: again", end)))
	both := WaitError(end, last)
	require.ErrorIs(t, both, end)
	require.ErrorIs(t, both, abstractions.ErrHeld)
}
