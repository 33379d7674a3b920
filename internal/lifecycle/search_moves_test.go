package lifecycle_test

import (
	"fmt"
	"slices"

	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
)

// move is a step from one state to another. at is the index of a request or of a process.
type move struct {
	kind byte
	at   int8
}

// The kinds of moves.
const (
	passes       byte = iota // a tick; at is the process whose clock stands still, -1 for none
	arrives                  // a request arrives
	arrivesFirst             // a request arrives, and a copy follows
	arrivesLate              // a request arrives, and is answered after its caller has left
	looks                    // a request reads the record
	isLost                   // a request is lost
	asksBreak
	breaks
	breaksAtOnce
	forgets
	setsBack
	failsOver
	asks // the moves of a process begin here
	asksAnswered
	adopts
	cleansUp
	givesUp
	getsNone
	getsAnswer
	due
	dueAnswered
	wantsTTL
	wantsMetadata
	wantsRenewal
	releases
	handsOver
	dies
	writes
	writeArrives
)

// moves appends the moves that may follow.
func (w *world) moves(list []move) []move {
	may := func(on bool, kind byte, at int) {
		if on {
			list = append(list, move{kind, int8(at)})
		}
	}
	may(true, passes, -1)
	for i := range w.parties {
		may(!w.plan.exact && w.parties[i].lag == lagging && !w.parties[i].idle(), passes, i)
	}
	for i := range w.network {
		r := &w.network[i]
		may(true, arrives, i)
		may(!r.copied && int(w.copies) < w.plan.copies, arrivesFirst, i)
		may(w.repliesLate(r), arrivesLate, i)
		may(w.plan.store && r.looked == nil, looks, i)
		may(w.plan.loses, isLost, i)
	}
	b := &w.backend
	may(int(w.breaks) < w.plan.breaks && b.record.ID != "" && b.deadline > w.time, asksBreak, 0)
	may(w.operator != 0, breaks, 0)
	may(w.operator != 0, breaksAtOnce, 0)
	may(w.plan.retention > 0 && w.forgettable(), forgets, 0)
	may(w.plan.setBack && !b.setBack, setsBack, 0)
	may(w.plan.failover && !b.failed && b.before != nil, failsOver, 0)
	for i := range w.parties {
		list = w.movesOf(i, list)
	}
	return list
}

// movesOf appends the moves of a process.
func (w *world) movesOf(i int, list []move) []move {
	may := func(on bool, kind byte) {
		if on {
			list = append(list, move{kind, int8(i)})
		}
	}
	p := &w.parties[i]
	room := len(w.network) < w.plan.requests
	claiming, holds := p.id != "" && p.life.Phase() == lifecycle.Claiming, p.holds()
	free := p.idle() && !p.cleans && room
	// The processes are alike at first, so the first of them begins.
	asking := free && int(p.claims) < w.plan.claims && (i == 0 || w.parties[i-1].claims > 0) || claiming && p.waits == 0 && room && !p.adopted
	may(asking, asks)
	may(asking, asksAnswered)
	may(free && w.handover != nil && (w.plan.deaths > 0 || w.handover.from != int8(i)), adopts)
	may(p.cleans && room && p.tryAt.Left(p.now()) <= 0 &&
		!slices.ContainsFunc(w.network, func(r request) bool { return r.kind == 'c' && r.from == int8(i) }), cleansUp)
	may(claiming && p.waits == 0, givesUp)
	may(p.waits != 0, getsNone)
	may(p.answer != nil, getsAnswer)
	may(w.writes[i].token != 0, writeArrives)
	may(int(w.deaths) < w.plan.deaths && !p.idle(), dies)
	if !holds {
		return list
	}
	ends, _ := p.life.Next(p.now())
	renews := ends <= 0 && (room || !p.believes())
	may(renews, due)
	may(renews && room, dueAnswered)
	may(w.plan.other != nil && p.wishes < 2, wantsTTL)
	may(w.plan.metadata && p.wishes < 2, wantsMetadata)
	may(w.plan.settings.Cadence == trust.Forever && room && p.waits == 0 && !p.life.Over(), wantsRenewal)
	may(room, releases)
	may(w.plan.handOver && w.handover == nil && p.waits == 0 && p.life.CanHandOver(p.sent), handsOver)
	may(w.plan.fence && w.writes[i].token == 0 && p.believes(), writes)
	return list
}

// do makes a move.
func (w *world) do(m move) {
	i := int(m.at)
	switch m.kind {
	case passes:
		w.pass(i)
	case arrives, arrivesFirst, arrivesLate:
		w.arrive(i, m.kind == arrivesFirst, m.kind == arrivesLate)
	case looks:
		w.look(i)
	case isLost:
		w.lose(i)
	case asksBreak:
		w.operator = w.backend.record.Token
		w.breaks++
	case breaks, breaksAtOnce:
		w.breakLease(m.kind == breaksAtOnce)
	case forgets:
		w.forget()
	case setsBack:
		w.backend.setBack = true
	case failsOver:
		w.failOver()
	case writeArrives:
		w.admit(i)
	default:
		w.act(i, m.kind)
	}
}

// pass lets a tick pass. Requests that are too old are lost.
func (w *world) pass(standing int) {
	w.time += tick
	for i := range w.parties {
		p := &w.parties[i]
		if p.lag = min(p.lag+1, lagging); i == standing {
			p.lag = 0
			continue
		}
		p.clock += tick
	}
	for i := len(w.network) - 1; i >= 0 && w.plan.delay > 0; i-- {
		if w.time-w.network[i].sent > w.plan.delay {
			w.lose(i)
		}
	}
}

// words describes a move in this state.
func (w *world) words(m move) string {
	switch m.kind {
	case passes:
		if m.at >= 0 {
			return fmt.Sprintf("a tick passes, but not on the clock of process %d", m.at)
		}
		return "a tick passes"
	case arrives, arrivesFirst, arrivesLate, looks, isLost:
		r := w.network[m.at]
		kinds := map[byte]string{'a': "acquire", 'n': "renewal", 'r': "release", 'c': "clean-up"}
		what := map[byte]string{arrives: "arrives", arrivesFirst: "arrives, and a copy will", arrivesLate: "arrives, and its answer comes late", looks: "reads the record", isLost: "is lost"}
		return fmt.Sprintf("%s %d of process %d %s (claim %s)", kinds[r.kind], r.no, r.from, what[m.kind], r.id)
	case getsAnswer:
		if err := w.parties[m.at].answer.Err; err != nil {
			return fmt.Sprintf("process %d gets an answer: %v", m.at, err)
		}
		return fmt.Sprintf("process %d gets an answer: granted", m.at)
	case wantsTTL:
		return fmt.Sprintf("process %d wants a TTL of %v", m.at, w.nextSettings(&w.parties[m.at]).TTL)
	case writeArrives:
		return fmt.Sprintf("the resource gets the write of process %d, with token %d", m.at, w.writes[m.at].token)
	case asksBreak:
		return fmt.Sprintf("an operator wants to break the lease with token %d", w.backend.record.Token)
	}
	if m.kind < asks {
		return map[byte]string{
			breaks: "the break arrives", breaksAtOnce: "the break arrives, which frees the name at once",
			forgets: "the backend forgets the name", setsBack: "the backend's clock is set back", failsOver: "the backend fails over, and loses its latest write",
		}[m.kind]
	}
	return fmt.Sprintf("process %d %s", m.at, map[byte]string{
		asks: "asks for the name", asksAnswered: "asks for the name, and is answered at once", adopts: "adopts the claim", cleansUp: "cleans up",
		givesUp: "gives its claim up", getsNone: "gets no answer", due: "finds its lease due", dueAnswered: "finds its lease due, and is answered at once",
		wantsMetadata: "wants other metadata", wantsRenewal: "renews by hand", releases: "releases", handsOver: "hands its lease over", dies: "is killed, and restarted", writes: "writes to the resource",
	}[m.kind])
}
