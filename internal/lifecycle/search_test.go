package lifecycle

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
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/internal/trust"
)

// The search walks the states that two processes can reach who claim one name: the real Lease of each, the real rules
// of the record, and between them a network that delays, doubles and loses. Each process may stand still at any moment, and
// its clock may be slower than the backend's, within the margin. The search is breadth first, so that an error
// comes with a shortest story. It is exhaustive within its bounds: processes make at most two claims each, two requests are on
// their way at a time, and TTLs are three ticks long. A request
// that is lost is one that never arrives.

const (
	tick    = time.Second
	ttl     = 3 * tick
	most    = 3 // requests on their way
	claims  = 1 // of each process
	doubled = 1 // requests that the network delivers twice
)

// plan is the wishes of the processes.
type plan struct {
	settings Settings
	handOver bool
	once     bool      // the network delivers no request twice
	other    *Settings // a holder may want another TTL, and then its own again; nil for one TTL
	breaks   bool      // an operator may break the lease, once
	exact    bool      // all clocks agree, and there is no margin
}

// request is one on its way to the backend, or waited for.
type request struct {
	kind   byte // 'a', 'n' for a renewal, 'r' for a release, 'c' for one of a clean-up
	from   int  // the process
	id     string
	token  int64
	ttl    time.Duration
	no     uint8 // of the process's requests
	copies uint8
}

// process is a holder with the steps of an engine: it sends one request at a time.
type process struct {
	life    Lease
	id      string
	token   int64
	claims  int
	adopted bool
	waits   byte // the kind of the request that it waits for; 0 for none
	no      uint8
	sent    trust.Instant
	answer  *Answer       // has arrived
	begun   trust.Instant // the release
	awaits  bool          // the release waits for the renewal under way
	cleanUp *CleanUp
	clock   time.Duration
	lag     int // ticks since its clock stood still last
}

func (p *process) now() trust.Instant { return trust.Instant{Mono: p.clock, Boot: p.clock} }

// believes reports whether the process works under the lease.
func (p *process) believes() bool {
	return (p.life.phase == Working || p.life.phase == Ending) && p.life.Remaining(p.now()) > 0
}

// idle reports whether the process neither has nor wants the lease.
func (p *process) idle() bool {
	return p.id == "" || p.life.phase == Ended || p.life.phase == Abandoned
}

type world struct {
	plan     *plan
	rules    *Rules
	time     time.Duration
	record   providerkit.Record
	deadline time.Duration
	network  []request
	parties  [2]process
	handover *request // offered to the other process
	broken   bool
	doubled  int
}

func (w *world) clone() *world {
	next := *w
	next.record = w.record.Clone()
	next.network = append([]request(nil), w.network...)
	return &next
}

var epoch = time.Unix(1_700_000_000, 0)

// ask applies a request to the record.
func (w *world) ask(r request) (grant abstractions.Grant, err error) {
	w.refresh()
	rec := &w.record
	var c providerkit.Change
	switch r.kind {
	case 'a':
		c = rec.Acquire(abstractions.AcquireRequest{ID: r.id, TTL: r.ttl})
	case 'n':
		c = rec.Renew(abstractions.RenewRequest{ID: r.id, Token: r.token, TTL: r.ttl})
	default:
		c = rec.Release(abstractions.ReleaseRequest{ID: r.id})
	}
	w.keep(c)
	return rec.Grant(r.ttl), c.Err
}

// refresh brings the record up to now.
func (w *world) refresh() {
	w.record.Now = epoch.Add(w.time)
	w.record.Left = w.deadline - w.time
	if w.deadline == trust.Forever {
		w.record.Left = abstractions.Infinite
	}
}

// keep stores the deadline of a record that a rule has changed.
func (w *world) keep(c providerkit.Change) {
	if c.Deadline {
		w.deadline = trust.AddSaturated(w.time, w.record.Left)
	}
}

// send puts a request on its way.
func (w *world) send(from int, kind byte, ttl time.Duration) {
	p := &w.parties[from]
	p.no++
	if kind != 'c' {
		p.waits, p.sent, p.answer = kind, p.now(), nil
	}
	w.network = append(w.network, request{kind: kind, from: from, id: p.id, token: p.token, ttl: ttl, no: p.no})
}

func (w *world) take(p *process, fx Effects) {
	if fx.CleanUp != nil {
		p.cleanUp = fx.CleanUp
	}
}

// step is one that may follow, with its words.
type step struct {
	what string
	do   func(w *world)
}

func (w *world) steps() (list []step) {
	add := func(do func(*world), format string, args ...any) {
		list = append(list, step{fmt.Sprintf(format, args...), do})
	}
	for lags := range 3 { // of none, of the first, of the second
		if lags > 0 && (w.plan.exact || w.parties[lags-1].lag < int(ttl/tick)-1 || w.parties[lags-1].idle()) {
			continue
		}
		whose := []string{"", ", process 0's clock stands still", ", process 1's clock stands still"}[lags]
		add(func(w *world) {
			w.time += tick
			for i := range w.parties {
				p := &w.parties[i]
				if p.lag = min(p.lag+1, int(ttl/tick)-1); i == lags-1 {
					p.lag = 0
					continue
				}
				p.clock += tick
			}
		}, "a tick passes%s", whose)
	}
	for i, r := range w.network {
		add(func(w *world) { w.deliver(i, false) }, "the backend gets %c%d of process %d, id %s", r.kind, r.no, r.from, r.id)
		if r.copies == 0 && w.doubled < doubled && !w.plan.once {
			add(func(w *world) { w.deliver(i, true) }, "the backend gets %c%d of process %d, id %s, which will come again", r.kind, r.no, r.from, r.id)
		}
	}
	if w.plan.breaks && !w.broken {
		add(func(w *world) {
			w.broken = true
			w.refresh()
			_, c := w.record.Break(abstractions.BreakRequest{Grace: tick})
			w.keep(c)
		}, "an operator breaks the lease")
	}
	for i := range w.parties {
		w.stepsOf(i, add)
	}
	return list
}

// deliver has the backend answer a request. again leaves a copy on its way.
func (w *world) deliver(i int, again bool) {
	r := w.network[i]
	if again {
		w.network[i].copies++
		w.doubled++
	} else {
		w.network = append(w.network[:i:i], w.network[i+1:]...)
	}
	grant, err := w.ask(r)
	p := &w.parties[r.from]
	a := &Answer{Grant: grant, Err: err, Applied: err == nil}
	if lost := (*abstractions.LostError)(nil); errors.As(err, &lost) {
		a.Lost = lost
	}
	switch {
	case r.kind == 'c':
		if c := p.cleanUp; c != nil && p.id == r.id && (c.Until.Mono == trust.Forever || c.Until.Left(p.now()) <= 0) {
			p.cleanUp = nil
		}
	case p.waits == r.kind && p.no == r.no && p.id == r.id && p.answer == nil:
		p.answer = a
	}
}

// roundTrip delivers the latest request, and its answer.
func (w *world) roundTrip(i int) {
	last := len(w.network) - 1
	if last < 0 || w.network[last].from != i || w.network[last].no != w.parties[i].no || w.parties[i].waits == 0 {
		return
	}
	w.deliver(last, false)
	if a := w.parties[i].answer; a != nil {
		w.answered(i, a, true)
	}
}

var errSilent = Silent(abstractions.ErrUnavailable)

// stepsOf adds the steps that a process may take.
func (w *world) stepsOf(i int, add func(func(*world), string, ...any)) {
	p := &w.parties[i]
	room := len(w.network) < most
	phase := p.life.phase
	idle := p.idle()
	if idle && p.cleanUp == nil && p.claims < claims && room {
		ask := func(w *world) {
			p := &w.parties[i]
			p.claims++
			*p = process{life: New(w.rules, &w.plan.settings), id: fmt.Sprintf("%c%d", 'a'+i, p.claims), claims: p.claims, no: p.no, clock: p.clock, lag: p.lag}
			w.send(i, 'a', w.plan.settings.FirstTTL)
		}
		add(ask, "process %d asks for the name", i)
		add(func(w *world) { ask(w); w.roundTrip(i) }, "process %d asks for the name, and is answered at once", i)
	}
	if idle && p.cleanUp == nil && w.handover != nil && w.handover.from != i && room {
		add(func(w *world) {
			p, h := &w.parties[i], w.handover
			w.handover = nil
			*p = process{life: New(w.rules, &w.plan.settings), id: h.id, token: h.token, adopted: true, claims: p.claims, no: p.no, clock: p.clock, lag: p.lag}
			w.send(i, 'n', w.plan.settings.FirstTTL)
		}, "process %d adopts the lease", i)
	}
	cleans := slices.ContainsFunc(w.network, func(r request) bool { return r.kind == 'c' && r.from == i })
	if c := p.cleanUp; c != nil && room && !cleans && (c.From == trust.Instant{} || c.From.Left(p.now()) <= 0) {
		add(func(w *world) { w.send(i, 'c', 0) }, "process %d cleans up", i)
	}
	if p.id != "" && phase == Claiming && p.waits == 0 {
		if room && !p.adopted {
			add(func(w *world) { w.send(i, 'a', w.plan.settings.FirstTTL) }, "process %d asks again", i)
		}
		add(func(w *world) { w.abandon(i) }, "process %d gives the claim up", i)
	}
	if p.waits != 0 {
		add(func(w *world) { w.answered(i, &Answer{Err: errSilent, Applied: true}, false) }, "process %d gets no answer to its %c", i, p.waits)
	}
	if p.answer != nil {
		add(func(w *world) { w.answered(i, w.parties[i].answer, true) }, "process %d gets the answer to its %c: %v", i, p.waits, p.answer.Err)
	}
	if phase != Working && phase != Ending {
		return
	}
	if due, _ := p.life.Next(p.now()); due <= 0 && (room || p.life.Remaining(p.now()) <= 0) {
		due := func(w *world) {
			p := &w.parties[i]
			renew, fx := p.life.Due(p.now())
			w.take(p, fx)
			if !renew {
				return
			}
			r, ok, fx := p.life.BeginRenewal(p.now())
			w.take(p, fx)
			if ok {
				w.send(i, 'n', r.TTL)
			}
		}
		add(due, "process %d's lease is due", i)
		add(func(w *world) { due(w); w.roundTrip(i) }, "process %d's lease is due, and a renewal is answered at once", i)
	}
	if o := w.plan.other; o != nil && (p.life.terms == nil || p.life.terms.version < 2) {
		wanted := o
		if p.life.settings == o {
			wanted = &w.plan.settings
		}
		add(func(w *world) { w.parties[i].life.WantTTL(wanted) }, "process %d wants a TTL of %v", i, wanted.TTL)
	}
	if room {
		add(func(w *world) {
			p := &w.parties[i]
			_, await, fx := p.life.AskRelease(p.now())
			w.take(p, fx)
			if p.life.phase == Releasing {
				p.begun, p.awaits = p.now(), await
				if !await {
					w.release(i)
				}
			}
		}, "process %d releases", i)
	}
	if w.plan.handOver && w.handover == nil && p.waits == 0 && p.life.CanHandOver(p.sent) {
		add(func(w *world) {
			p := &w.parties[i]
			if w.take(p, p.life.Expire(p.now())); p.life.Over() {
				return
			}
			w.take(p, p.life.HandOver())
			w.handover = &request{from: i, id: p.id, token: p.token}
		}, "process %d hands the lease over", i)
	}
}

func (w *world) abandon(i int) {
	p := &w.parties[i]
	p.waits, p.answer = 0, nil
	unknown := p.life.Unknown()
	c := p.life.Abandon()
	if unknown {
		p.cleanUp = &c
	}
}

// release takes the next step of a release.
func (w *world) release(i int) {
	p := &w.parties[i]
	switch next, ttl := p.life.NextStep(p.now()); next {
	case GiveUp:
		w.send(i, 'r', 0)
	case Shorten:
		w.send(i, 'n', ttl)
	case RunOut:
		w.released(i, nil)
	}
}

func (w *world) released(i int, err error) {
	p := &w.parties[i]
	c := p.life.AfterRelease(p.begun, err != nil, err != nil)
	w.take(p, p.life.Released(err))
	w.take(p, Effects{CleanUp: c})
}

// answered has a process take an answer. told is false if no answer came.
func (w *world) answered(i int, a *Answer, told bool) {
	p := &w.parties[i]
	kind, sent := p.waits, p.sent
	p.waits, p.answer = 0, nil
	switch {
	case p.awaits:
		p.awaits = false
		_, _, fx := p.life.Answered(sent, p.now(), a, 0)
		w.take(p, fx)
		w.release(i)
	case p.life.phase == Releasing:
		w.released(i, a.Err)
	case kind == 'a' || p.adopted && p.life.phase == Claiming:
		switch held := (*abstractions.HeldError)(nil); {
		case !told:
			if !p.adopted {
				p.life.Unanswered(sent)
			}
		case errors.As(a.Err, &held):
		case a.Err != nil:
			w.abandon(i)
		case !p.life.Granted(p.now(), sent, a.Grant.TTL, p.adopted):
			w.abandon(i)
		default:
			p.token = a.Grant.Token
			w.take(p, p.life.Begin(p.now(), sent, a.Grant, 0))
		}
	case kind == 'n':
		late := *a
		if late.Err == nil && !w.rules.Trusts(p.now(), sent, a.Grant.TTL) {
			late = Answer{Err: errSilent, Applied: true}
		}
		_, _, fx := p.life.Answered(sent, p.now(), &late, 0)
		w.take(p, fx)
	}
}

// key is the state without what no step depends on: times count from now, and tokens by their order.
func (w *world) key(b []byte) []byte {
	rank := func(token int64) (n byte) {
		for _, other := range []int64{w.record.Token, w.parties[0].token, w.parties[1].token} {
			if other < token {
				n++
			}
		}
		return n
	}
	rel := func(d, now time.Duration) {
		if d == trust.Forever {
			b = append(b, 127)
			return
		}
		b = append(b, byte(int8(min(max((d-now+tick/3-1)/(tick/3), -1), 100))))
	}
	flag := func(on bool) { b = append(b, map[bool]byte{true: 1}[on]) }
	rel(w.deadline, w.time)
	b = append(b, byte(w.doubled))
	flag(w.broken)
	flag(w.record.Breaking)
	b = append(append(b, w.record.ID...), 0, rank(w.record.Token))
	for _, e := range w.record.Ended {
		b = append(b, e.ID...)
	}
	for _, r := range w.network {
		p := &w.parties[r.from]
		b = append(append(b, r.kind, byte(r.from), r.copies, rank(r.token), byte(min(r.ttl, 100*tick)/tick)), r.id...)
		flag(p.waits == r.kind && p.no == r.no)
	}
	for i := range w.parties {
		p, l, now := &w.parties[i], &w.parties[i].life, w.parties[i].clock
		b = append(append(b, 255, byte(l.phase), p.waits, byte(p.claims), byte(p.lag), rank(p.token), byte(min(l.failures, 2))), p.id...)
		flag(l.renewing)
		flag(l.unknown)
		flag(l.unsure)
		flag(p.adopted)
		flag(p.awaits)
		if p.answer != nil {
			b = append(b, fmt.Sprint(p.answer.Err, p.answer.Grant.TTL)...)
		}
		if p.waits != 0 {
			rel(p.sent.Mono, now)
		}
		if c := p.cleanUp; c != nil {
			rel(c.From.Mono, now)
			rel(c.Until.Mono, now)
		}
		if l.phase < Ended {
			for _, t := range []trust.Instant{l.until, l.lastSent, l.sent.Add(l.granted), l.nextRenew(), l.doubt, l.keep} {
				rel(t.Mono, now)
			}
		}
	}
	for i := range w.parties {
		if t := w.parties[i].life.terms; t != nil {
			b = append(b, 253, byte(i), byte(t.version), byte(t.carried), byte(t.granted), byte(t.asked/tick), byte(t.longest/tick), byte(min(t.doubtful/tick, 100)))
		}
	}
	if h := w.handover; h != nil {
		b = append(append(b, 254, byte(h.from), rank(h.token)), h.id...)
	}
	return b
}

// wrong returns the promise that a state breaks, or "".
func (w *world) wrong() string {
	a, b := &w.parties[0], &w.parties[1]
	if a.believes() && b.believes() {
		return "two holders"
	}
	for i := range w.parties {
		if p := &w.parties[i]; p.believes() && (w.record.ID != p.id || w.deadline <= w.time) {
			return fmt.Sprintf("process %d works, and the backend gives the name to others", i)
		}
	}
	if len(w.network) > 0 || w.deadline != trust.Forever || w.record.ID == "" {
		return ""
	}
	for i := range w.parties {
		if p := &w.parties[i]; p.id != "" && p.life.phase < Ended || p.waits != 0 || p.cleanUp != nil {
			return ""
		}
	}
	return "the name stays taken for ever"
}

// search visits states until there are none left, or limit. It returns the story of the first error.
func search(p *plan, limit int) (states, depth int, whole bool, story string) {
	type trace struct {
		parent int32
		what   string
	}
	drift := 1.0 / 3
	if p.exact {
		drift = 0
	}
	rules := &Rules{DriftFactor: drift, RequestTimeout: tick, Granularity: time.Millisecond, MinTTL: tick}
	seed := maphash.MakeSeed()
	var buf []byte
	seen := map[[2]uint64]struct{}{}
	fresh := func(w *world) bool {
		buf = w.key(buf[:0])
		h := [2]uint64{maphash.Bytes(seed, buf)}
		buf = binary.LittleEndian.AppendUint64(buf, h[0])
		h[1] = maphash.Bytes(seed, buf)
		_, known := seen[h]
		if !known {
			seen[h] = struct{}{}
		}
		return !known
	}
	type entry struct {
		w  *world
		at int32
	}
	first := &world{plan: p, rules: rules}
	for i := range first.parties {
		first.parties[i].clock = time.Duration(i) * 100 * tick
	}
	traces := []trace{{-1, "at first the name is free"}}
	front := []entry{{first, 0}}
	fresh(first)
	for ; len(front) > 0; depth++ {
		var next []entry
		for _, e := range front {
			for _, s := range e.w.steps() {
				w := e.w.clone()
				s.do(w)
				if !fresh(w) {
					continue
				}
				traces = append(traces, trace{e.at, s.what})
				if wrong := w.wrong(); wrong != "" {
					lines := []string{wrong}
					for at := int32(len(traces) - 1); at >= 0; at = traces[at].parent {
						lines = append(lines, traces[at].what)
					}
					for i, j := 1, len(lines)-1; i < j; i, j = i+1, j-1 {
						lines[i], lines[j] = lines[j], lines[i]
					}
					return len(seen), depth, false, strings.Join(lines, "\n")
				}
				if len(seen) >= limit {
					return len(seen), depth, false, ""
				}
				next = append(next, entry{w, int32(len(traces) - 1)})
			}
		}
		front = next
	}
	return len(seen), depth, true, ""
}

// TestSearch visits as many states as fit, by LEASING_SEARCH_STATES.
func TestSearch(t *testing.T) {
	limit := 100_000
	if testing.Short() {
		limit = 20_000
	}
	if n := os.Getenv("LEASING_SEARCH_STATES"); n != "" {
		_, err := fmt.Sscan(n, &limit)
		require.NoError(t, err)
	}
	finite := Settings{TTL: ttl, FirstTTL: ttl, Cadence: tick}
	infinite := Settings{TTL: abstractions.Infinite, FirstTTL: ttl, Cadence: tick}
	short := Settings{TTL: tick, FirstTTL: tick, Cadence: tick / 2}
	keeping := infinite
	keeping.AtLeast = 2 * tick
	for what, p := range map[string]*plan{
		"finite":               {settings: finite},
		"infinite":             {settings: infinite},
		"infinite and AtLeast": {settings: keeping, once: true}, // see AcquireOptions.AtLeast
		"hand-over":            {settings: finite, handOver: true},
		"a shorter TTL":        {settings: finite, exact: true, other: &short},
		"a longer TTL":         {settings: short, exact: true, other: &finite},
		"a break":              {settings: finite, breaks: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			states, depth, whole, story := search(p, limit)
			t.Logf("%d states to depth %d in %v; exhaustive: %v", states, depth, time.Since(began).Round(time.Millisecond), whole)
			require.Empty(t, story)
		})
	}
}
