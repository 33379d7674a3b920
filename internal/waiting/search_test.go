package waiting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
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
	late           int  // answers in a row after the time at which the lease should have ended
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
		after := time.Millisecond << min(x.late, 8)
		least, most = min(least, x.left+time.Millisecond), min(most, x.left+after)
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
			if x.late++; x.left > 0 {
				x.late = 0
			}
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

// check describes the promise that the state breaks, or returns "".
func (w *world) check() string {
	if w.violation != "" {
		return w.violation
	}
	for i := range w.processes {
		p := &w.processes[i]
		first, head := 0, 0
		for n := 1; n <= w.plan.waiters[i]; n++ {
			x := &p.waiters[n-1]
			if x.phase < queued || x.phase > paused {
				continue
			}
			if first == 0 || x.order < p.waiters[first-1].order {
				first = n
			}
			if x.phase == queued && !x.wake {
				continue
			}
			if head != 0 {
				return fmt.Sprintf("two heads in process %d", i)
			}
			head = n
			switch {
			case x.phase != paused || x.ignoresWakeups || x.wake || x.wakeup:
			case p.freed && p.wakeAt.IsZero():
				return fmt.Sprintf("%d.%d sleeps after the end of a lease of its process", i, n)
			case x.missed && x.head.subscribed && x.head.last.Held != nil && !x.lost:
				return fmt.Sprintf("%d.%d sleeps after a release of which no wake-up comes", i, n)
			}
		}
		switch {
		case head != 0 && head != first:
			return fmt.Sprintf("%d.%d leads before %d.%d, which came first", i, head, i, first)
		case head != 0 && p.cleanUp != 0:
			return fmt.Sprintf("%d.%d leads before the clean-up", i, head)
		case head == 0 && p.cleanUp == 0 && first != 0:
			return fmt.Sprintf("%d.%d is the first, and not the head", i, first)
		}
	}
	return ""
}

// key appends the part of the state on which later steps depend, with times relative to now.
func (w *world) key(b []byte) []byte {
	rel := func(t time.Time) {
		if t.IsZero() {
			b = append(b, 255, 255)
			return
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(max(min(t.Sub(w.now)/(tick/100), 10000), -3000)+3000))
	}
	flags := func(flags ...bool) {
		n := byte(0)
		for _, f := range flags {
			n <<= 1
			if f {
				n |= 1
			}
		}
		b = append(b, n)
	}
	b = append(b, byte(w.holder), byte(w.faults))
	if w.holder != 0 {
		rel(w.deadline)
	}
	for i := range w.processes {
		p, q := &w.processes[i], &w.processes[i].queue
		flags(q.hasHead, q.blocked, p.freed)
		b = append(b, byte(q.holder), byte(p.cleanUp), byte(len(q.waiters)))
		for _, n := range q.waiters {
			b = append(b, byte(n))
		}
		rel(p.wakeAt)
		rel(q.yield.contendedAt)
		rel(p.refused)
		rel(q.refusedSince)
		if !w.plan.rules.Queued {
			rel(q.yield.since)
			rel(q.yield.ended)
			rel(q.yield.yieldUntil)
			b = append(b, byte(q.yield.leases), byte(q.yield.yields))
		}
		for n := range p.waiters {
			x := &p.waiters[n]
			h := &x.head
			b = append(b, byte(x.phase))
			if x.phase == outside || x.phase == gone {
				continue
			}
			flags(x.wake, x.wakeup, x.registered, x.ambiguous, x.granted, x.ignoresWakeups, x.missed, x.lost)
			flags(h.subscribed, h.wakeupsEnded, h.limitPassed, h.askedAt.IsZero(), w.now.Sub(h.askedAt) < w.plan.rules.MinPoll, h.last.Held != nil, h.last.Throttled, h.last.Err != nil)
			b = append(b, byte(x.late), byte(x.pauses), byte(x.failures), byte(w.token-x.token), byte(h.lateAnswers), byte(h.backoff), byte(w.token-h.token), byte(min(h.failures, 1)))
			switch x.phase {
			case paused:
				rel(x.until)
			case answered:
				b = append(b, byte(x.left/(tick/10)))
			case holding, releasing, released:
				if !w.plan.rules.Queued {
					rel(x.acquired)
				}
			}
		}
	}
	return b
}

// search visits states until none is left or it has visited limit states. It returns the trace of the first error.
func search(p *plan, limit int) (states, depth int, exhaustive bool, trace string) {
	type visit struct {
		parent int32
		text   string
	}
	type entry struct {
		w  *world
		at int32
	}
	seed := maphash.MakeSeed()
	var buf []byte
	seen := map[uint64]struct{}{}
	isNew := func(w *world) bool {
		buf = w.key(buf[:0])
		h := maphash.Bytes(seed, buf)
		_, known := seen[h]
		seen[h] = struct{}{}
		return !known
	}
	first := &world{plan: p, now: time.Unix(1_700_000_000, 0)}
	for i := range first.processes {
		q := New[int, int](&p.rules)
		if p.yields {
			q.yield.yields = 1
		}
		first.processes[i].queue = *q
	}
	isNew(first)
	visits, front := []visit{{-1, "at first the name is free"}}, []entry{{first, 0}}
	for ; len(front) > 0; depth++ {
		var next []entry
		for _, e := range front {
			for _, s := range e.w.steps() {
				w := e.w.clone()
				s.do(w)
				violation := w.check()
				if violation == "" && !isNew(w) {
					continue
				}
				visits = append(visits, visit{e.at, s.text})
				if violation != "" {
					var lines []string
					for at := int32(len(visits) - 1); at >= 0; at = visits[at].parent {
						lines = append(lines, visits[at].text)
					}
					slices.Reverse(lines)
					return len(seen), depth, false, violation + ":\n" + strings.Join(lines, "\n")
				}
				if len(seen) >= limit {
					return len(seen), depth, false, ""
				}
				next = append(next, entry{w, int32(len(visits) - 1)})
			}
		}
		front = next
	}
	return len(seen), depth, true, ""
}

// TestSearch visits as many states as LEASING_SEARCH_STATES says.
func TestSearch(t *testing.T) {
	limit := 200_000
	if testing.Short() {
		limit = 20_000
	}
	if n := os.Getenv("LEASING_SEARCH_STATES"); n != "" {
		_, err := fmt.Sscan(n, &limit)
		require.NoError(t, err)
	}
	polls := Rules{MinPoll: tick, MaxPoll: tick, RefusalTimeout: time.Hour}
	wakeups, queued, slower, refusals := polls, polls, polls, polls
	slower.MinPoll, refusals.RefusalTimeout = tick/4, 2*tick
	wakeups.Wakeups, queued.Wakeups, queued.Queued = true, true, true
	two := [2]int{2, 2}
	for what, p := range map[string]*plan{
		"polling":             {rules: polls, waiters: two, faults: 1},
		"polling, with turns": {rules: polls, waiters: two, faults: 1, yields: true},
		"wake-ups":            {rules: wakeups, waiters: two, faults: 1, hidesExpiry: true},
		"a queue":             {rules: queued, waiters: two, faults: 1},
		"one process":         {rules: wakeups, waiters: [2]int{3, 0}, faults: 2},
		"back-off":            {rules: slower, waiters: two, faults: 2, hidesExpiry: true},
		"refusals":            {rules: refusals, waiters: [2]int{2, 0}, faults: 5, refuses: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			states, depth, exhaustive, trace := search(p, limit)
			t.Logf("%d states to depth %d in %v; exhaustive: %v", states, depth, time.Since(began).Round(time.Millisecond), exhaustive)
			require.Empty(t, trace)
		})
	}
}
