package waiting

import (
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// step is a step that may follow, and its description.
type step struct {
	text string
	do   func(w *world)
}

func (w *world) steps() (list []step) {
	quiet := true // only time, arrivals and faults can follow
	for i := range w.processes {
		p := &w.processes[i]
		arrived := false
		for n := 1; n <= w.plan.waiters[i]; n++ {
			own := w.waiterSteps(i, n)
			quiet = quiet && len(own) == 0
			list = append(list, own...)
			if p.waiters[n-1].phase == outside && !arrived { // the waiters are alike, so the first of them comes next
				arrived = true
				list = append(list, step{fmt.Sprintf("%d.%d comes", i, n), func(w *world) { w.join(i, n) }})
			}
			if w.faults < w.plan.faults {
				for _, s := range w.faultSteps(i, n) {
					list = append(list, step{s.text, func(w *world) {
						w.faults++
						s.do(w)
					}})
				}
			}
		}
		if p.cleanUp != 0 {
			quiet = false
			list = append(list, step{fmt.Sprintf("process %d cleans up", i), func(w *world) {
				p := &w.processes[i]
				if w.holder == claim(i, p.cleanUp) {
					w.free()
				}
				p.cleanUp = 0
				if p.bufferWake(p.queue.Settled()); p.queue.Idle() {
					p.refused = time.Time{}
				}
			}})
		}
	}
	if next := w.due(); !next.IsZero() {
		list = append(list, step{"time passes", (*world).fireTimers})
	} else if quiet {
		for i := range w.processes {
			if len(w.processes[i].queue.waiters) > 0 {
				list = append(list, step{"nothing happens any more", func(w *world) { w.violation = "a waiter sleeps for ever" }})
			}
		}
	}
	return list
}

func (w *world) join(i, n int) {
	p := &w.processes[i]
	w.arrivals++
	p.waiters[n-1] = waiter{phase: queued, order: w.arrivals, wake: false}
	if p.queue.Join(n) {
		w.begin(i, n)
	}
}

func (w *world) begin(i, n int) {
	p := &w.processes[i]
	var first Step
	p.freed = false // the first step takes the freed name into account
	yields := p.queue.yield.yieldUntil.After(w.now)
	p.waiters[n-1].head, first = p.queue.Begin(w.now, nil)
	switch {
	case first.Pause > 0 && !yields && !p.holds():
		w.violation = fmt.Sprintf("%d.%d waits for a lease of its process that has ended", i, n)
	case first.Pause == 0 && p.queue.holder != 0 && p.waiters[p.queue.holder-1].phase == holding:
		w.violation = fmt.Sprintf("%d.%d asks for a name that its own process has", i, n)
	}
	w.takeStep(i, n, first)
}

// waiterSteps returns the steps of a waiter in which nothing goes wrong.
func (w *world) waiterSteps(i, n int) (list []step) {
	x := &w.processes[i].waiters[n-1]
	add := func(what string, do func(w *world, p *process, x *waiter)) {
		list = append(list, step{fmt.Sprintf("%d.%d %s", i, n, what), func(w *world) {
			do(w, &w.processes[i], &w.processes[i].waiters[n-1])
		}})
	}
	switch x.phase {
	case queued:
		if x.wake {
			add("has its turn", func(w *world, _ *process, x *waiter) {
				x.wake = false
				w.begin(i, n)
			})
		}
	case asking:
		add("reaches the backend", func(w *world, _ *process, _ *waiter) { w.ask(i, n) })
	case answered:
		add("is answered", func(w *world, _ *process, x *waiter) {
			if x.granted {
				w.leave(i, n, true)
				return
			}
			held := &abstractions.HeldError{Holder: abstractions.Record{Held: true, Token: w.token}}
			if !w.plan.hidesExpiry {
				held.Holder.Now, held.Holder.ExpiresAt = w.now, w.now.Add(x.left)
			}
			w.reply(i, n, Answer{Err: held, Held: held})
		})
	case subscribing:
		add("is registered", func(_ *world, _ *process, x *waiter) { x.phase, x.registered = subscribed, true })
	case subscribed:
		add("gets the answer to its registration", func(w *world, _ *process, x *waiter) { w.takeStep(i, n, x.head.Subscribed(true, 0)) })
	case paused:
		if x.wake && !x.ignoresWakeups {
			add("is woken", func(w *world, _ *process, x *waiter) {
				x.wake = false
				w.takeStep(i, n, x.head.Woken(false))
			})
		}
		if x.wakeup && !x.ignoresWakeups {
			add("gets a wake-up", func(w *world, _ *process, x *waiter) {
				x.wakeup = false
				w.takeStep(i, n, x.head.Woken(false))
			})
		}
	case holding:
		add("releases", func(_ *world, p *process, x *waiter) {
			x.phase = releasing
			p.bufferWake(p.queue.Ending(n))
		})
	case releasing:
		add("is released", func(w *world, _ *process, x *waiter) {
			x.phase = released
			w.free()
		})
	case released:
		add("gets the answer to its release", func(w *world, _ *process, _ *waiter) { w.endLease(i, n) })
	}
	return list
}

// ask makes the backend decide on a request.
func (w *world) ask(i, n int) {
	x := &w.processes[i].waiters[n-1]
	x.phase, x.missed, x.lost = answered, false, false
	x.granted = w.holder == 0 || w.holder == claim(i, n)
	if x.left = w.deadline.Sub(w.now); x.granted {
		w.token++
		w.holder, w.deadline = claim(i, n), w.now.Add(4*tick)
	}
}

// reply passes an answer other than a grant to a head.
func (w *world) reply(i, n int, a Answer) {
	p := &w.processes[i]
	x := &p.waiters[n-1]
	switch {
	case a.Held != nil:
		x.failures = 0
		if x.token != w.token {
			x.token, x.pauses = w.token, 0
		}
	default:
		x.failures++
	}
	switch {
	case !a.Refused && (a.Held != nil || a.Throttled):
		p.refused = time.Time{}
	case a.Refused && p.refused.IsZero():
		p.refused = w.now
	}
	refused := p.queue.Answered(w.now, &a)
	s := x.head.Answered(w.now, &a, refused, 0)
	switch long := a.Refused && w.now.Sub(p.refused) >= w.plan.rules.RefusalTimeout; {
	case refused != long, s.Stop != (long || x.head.limitPassed):
		w.violation = fmt.Sprintf("%d.%d does not stop when it should, or too early", i, n)
	case !s.Stop && s.Failed != x.failures:
		w.violation = fmt.Sprintf("%d.%d reports %d failures of %d", i, n, s.Failed, x.failures)
	}
	w.takeStep(i, n, s)
}

var errNoAnswer = fmt.Errorf("%w: no answer", abstractions.ErrUnavailable)

// faultSteps returns the steps of a waiter in which something goes wrong.
func (w *world) faultSteps(i, n int) (list []step) {
	x := &w.processes[i].waiters[n-1]
	add := func(what string, do func(w *world, x *waiter)) {
		list = append(list, step{fmt.Sprintf("%d.%d %s", i, n, what), func(w *world) { do(w, &w.processes[i].waiters[n-1]) }})
	}
	switch x.phase {
	case queued, subscribing, subscribed:
		add("leaves", func(w *world, _ *waiter) { w.leave(i, n, false) })
	case asking, answered:
		add("gets no answer", func(w *world, x *waiter) {
			x.ambiguous = true
			w.reply(i, n, Answer{Err: errNoAnswer})
		})
		add("leaves", func(w *world, x *waiter) {
			x.ambiguous = true
			w.takeStep(i, n, x.head.Stopped(errors.New("cancelled"), &Answer{}))
		})
		if x.phase == asking {
			add("is throttled", func(w *world, _ *waiter) {
				w.reply(i, n, Answer{Err: abstractions.ErrThrottled, Throttled: true, RetryAfter: throttle})
			})
		}
		if x.phase == asking && w.plan.refuses {
			add("is refused", func(w *world, _ *waiter) { w.reply(i, n, Answer{Err: abstractions.ErrDenied, Refused: true}) })
		}
	case paused:
		add("leaves", func(w *world, _ *waiter) { w.leave(i, n, false) })
		add("has passed its limit", func(w *world, x *waiter) { w.takeStep(i, n, x.head.LimitPassed(w.now)) })
		if x.wakeup {
			add("loses a wake-up", func(_ *world, x *waiter) { x.wakeup, x.lost = false, true })
		}
		if x.registered && !x.ignoresWakeups {
			add("learns that wake-ups end", func(w *world, x *waiter) {
				x.registered, x.wakeup = false, false
				w.takeStep(i, n, x.head.Woken(true))
			})
		}
	}
	return list
}
