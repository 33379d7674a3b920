package waiting

import (
	"fmt"
	"slices"
	"time"
)

// The search visits the states that two processes with two waiters each, or one process with three waiters, can reach. A state
// has the real queues and heads of the processes, a record with a holder and a deadline, and requests whose answers take time.
// The search is breadth first, so the trace of an error is as short as possible. Each waiter acquires once, and few things go
// wrong in a trace: see plan.faults. Time passes from one timer to the next. A holder that does not release loses its lease at
// the deadline.

const tick = time.Second

var longest = (&Rules{MaxPoll: tick}).maxPushedPause()

const throttle = 3 * tick

// plan has the settings of a search.
type plan struct {
	rules       Rules
	waiters     [2]int // of each process
	yields      bool   // processes yield for a short time after each lease
	hidesExpiry bool   // the backend does not report when a lease ends
	refuses     bool   // the backend may refuse the caller
	faults      int    // the largest number of leaves, lost answers, lost wake-ups, limits and refusals in a trace
}

// phase is the stage of a waiter.
type phase byte

const (
	outside     phase = iota
	queued            // waits for its turn
	asking            // the request is on its way
	answered          // the answer is on its way
	subscribing       // the registration is on its way
	subscribed        // the answer is on its way
	paused
	holding
	releasing // the release is on its way
	released  // the answer is on its way
	gone
)

type waiter struct {
	phase
	head           Head
	order          int  // of arrival
	wake           bool // a wake-up from this process; buffered, as is wakeup
	wakeup         bool
	registered     bool // the backend has its registration
	ambiguous      bool // a request may have been applied
	granted        bool // by the answer on its way
	left           time.Duration
	until          time.Time // of the pause
	ignoresWakeups bool
	missed         bool // the name was released after the waiter's last request reached the backend
	lost           bool // a wake-up for this waiter was lost
	failures       int  // requests in a row without an answer
	pauses         int  // in a row while the same claim had the name, or none was known
	token          int64
	acquired       time.Time
}

type process struct {
	queue   Queue[int, int]
	waiters [3]waiter
	cleanUp int       // the waiter whose claim is cleaned up; 0 for none
	wakeAt  time.Time // when Wake is due; zero if it is not
	freed   bool      // a lease of this process has ended since the head sent its last request
	refused time.Time // of the first refusal after the latest other answer; zero for none
}

type world struct {
	plan      *plan
	now       time.Time
	holder    int // 10 * process + waiter, both from 1; 0 for none
	deadline  time.Time
	token     int64
	faults    int
	arrivals  int
	processes [2]process
	violation string
}

func (w *world) clone() *world {
	next := *w
	for i := range next.processes {
		q := &next.processes[i].queue
		q.waiters = slices.Clone(q.waiters)
	}
	return &next
}

func claim(p, n int) int { return 10*(p+1) + n }

// holds reports whether a waiter of the process has acquired the name, and its lease has not ended.
func (p *process) holds() bool {
	return slices.ContainsFunc(p.waiters[:], func(x waiter) bool { return x.phase >= holding && x.phase < gone })
}

// bufferWake buffers a wake-up for a waiter of a process.
func (p *process) bufferWake(n int) {
	if n != 0 {
		p.waiters[n-1].wake = true
	}
}

// free releases the name at the backend, which sends a wake-up to each registered waiter.
func (w *world) free() {
	w.holder = 0
	for i := range w.processes {
		for j := range w.processes[i].waiters {
			x := &w.processes[i].waiters[j]
			x.missed = true
			x.wakeup = x.wakeup || x.registered
		}
	}
}

// takeStep takes the next step of a head.
func (w *world) takeStep(i, n int, s Step) {
	p, x := &w.processes[i], &w.processes[i].waiters[n-1]
	switch {
	case s.Ask:
		x.phase, p.freed = asking, false
	case s.Subscribe:
		x.phase = subscribing
	case s.Stop:
		w.leave(i, n, false)
	default:
		x.phase, x.until, x.ignoresWakeups = paused, w.now.Add(s.Pause), s.IgnoreWakeups
		least, most := w.bounds(x, s.IgnoreWakeups)
		if x.head.last.Err != nil {
			x.pauses++
		}
		if s.Pause < least || s.Pause > most {
			w.violation = fmt.Sprintf("waiter %d.%d pauses for %v, and not for %v to %v", i, n, s.Pause, least, most)
		}
	}
}

// bounds returns the bounds of a pause.
func (w *world) bounds(x *waiter, deaf bool) (least, most time.Duration) {
	held := x.head.last.Held != nil
	most = longest
	switch {
	case deaf:
		return throttle, throttle
	case !held || !x.registered:
		most = w.plan.rules.MaxPoll
	}
	if least = min(w.plan.rules.MinPoll<<min(x.pauses, 8), w.plan.rules.MaxPoll); x.head.last.Err == nil {
		return 1, most // of the first step: for the rest of the yield time, or until a lease of the process ends
	}
	if held && !w.plan.hidesExpiry {
		least, most = min(least, x.left+time.Millisecond), min(most, x.left+time.Millisecond)
	}
	return least, most
}

// leave ends the wait of a waiter.
func (w *world) leave(i, n int, won bool) {
	p, x := &w.processes[i], &w.processes[i].waiters[n-1]
	lease, unresolved := 0, x.ambiguous && !won
	if won {
		lease = n
	}
	blocks, wake := p.queue.Leave(n, lease, fmt.Sprint(i, n), unresolved)
	if won || p.queue.Idle() {
		p.refused = time.Time{}
	}
	p.bufferWake(wake)
	*x = waiter{phase: gone, acquired: w.now}
	if won {
		x.phase = holding
	}
	switch {
	case blocks:
		p.cleanUp = n
	case unresolved && w.holder == claim(i, n): // no waiter waits for this clean-up
		w.free()
	}
}

// endLease ends a lease in its process.
func (w *world) endLease(i, n int) {
	p := &w.processes[i]
	acquired := p.waiters[n-1].acquired
	p.waiters[n-1] = waiter{phase: gone}
	p.freed = p.freed || !p.holds()
	wake, later := p.queue.Ended(n, acquired, w.now)
	p.bufferWake(wake)
	if later > 0 && len(p.queue.waiters) > 0 {
		p.wakeAt = w.now.Add(later)
	}
}

// due returns when the next timer fires.
func (w *world) due() (next time.Time) {
	consider := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if w.holder != 0 {
		consider(w.deadline)
	}
	for i := range w.processes {
		consider(w.processes[i].wakeAt)
		for _, x := range w.processes[i].waiters {
			if x.phase == paused {
				consider(x.until)
			}
		}
	}
	return next
}

// fireTimers fires the next timers.
func (w *world) fireTimers() {
	w.now = w.due()
	if w.holder != 0 && !w.deadline.After(w.now) {
		i, n := w.holder/10-1, w.holder%10
		w.holder = 0 // an expiry sends no wake-ups
		if w.processes[i].waiters[n-1].phase == holding || w.processes[i].waiters[n-1].phase == releasing {
			w.endLease(i, n)
		}
	}
	for i := range w.processes {
		p := &w.processes[i]
		if !p.wakeAt.IsZero() && !p.wakeAt.After(w.now) {
			p.wakeAt = time.Time{}
			p.bufferWake(p.queue.Wake())
		}
		for n := 1; n <= w.plan.waiters[i]; n++ {
			if x := &p.waiters[n-1]; x.phase == paused && !x.until.After(w.now) {
				w.takeStep(i, n, x.head.Woken(false))
			}
		}
	}
}
