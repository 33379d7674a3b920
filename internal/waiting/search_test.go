package waiting

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
			b = append(b, byte(x.pauses), byte(x.failures), byte(w.token-x.token), byte(h.lateAnswers), byte(h.backoff), byte(w.token-h.token), byte(min(h.failures, 1)))
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
