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
	moveTick         byte = iota // a tick; at is the process whose clock stands still, -1 for none
	moveArrive                   // a request arrives
	moveArriveCopied             // a request arrives, and a copy follows
	moveArriveLate               // a request arrives, and is answered after its caller has left
	moveRead                     // a request reads the record
	moveLoseRequest              // a request is lost
	moveAskBreak
	moveBreak
	moveBreakAtOnce
	moveForget
	moveSetClockBack
	moveFailOver
	moveAcquire // the moves of a process begin here
	moveAcquireAnswered
	moveAdopt
	moveCleanUp
	moveAbandon
	moveNoAnswer
	moveAnswer
	moveDue
	moveDueAnswered
	moveWantTTL
	moveWantMetadata
	moveRenew
	moveRelease
	moveHandOver
	moveKill
	moveWrite
	moveWriteArrive
)

// moves appends the moves that are possible in this state.
func (w *world) moves(list []move) []move {
	may := func(on bool, kind byte, at int) {
		if on {
			list = append(list, move{kind, int8(at)})
		}
	}
	may(true, moveTick, -1)
	for i := range w.parties {
		may(!w.plan.equalClocks && w.parties[i].lag == lagging && !w.parties[i].idle(), moveTick, i)
	}
	for i := range w.network {
		r := &w.network[i]
		may(true, moveArrive, i)
		may(!r.copied && int(w.copies) < w.plan.copies, moveArriveCopied, i)
		may(w.repliesLate(r), moveArriveLate, i)
		may(w.plan.store && r.read == nil, moveRead, i)
		may(w.plan.lossy, moveLoseRequest, i)
	}
	b := &w.backend
	may(int(w.breaks) < w.plan.breaks && b.record.ID != "" && b.deadline > w.time, moveAskBreak, 0)
	may(w.operator != 0, moveBreak, 0)
	may(w.operator != 0, moveBreakAtOnce, 0)
	may(w.plan.retention > 0 && w.forgettable(), moveForget, 0)
	may(w.plan.setBack && !b.setBack, moveSetClockBack, 0)
	may(w.plan.failover && !b.failed && b.before != nil, moveFailOver, 0)
	for i := range w.parties {
		list = w.processMoves(i, list)
	}
	return list
}

// processMoves appends the moves of a process.
func (w *world) processMoves(i int, list []move) []move {
	may := func(on bool, kind byte) {
		if on {
			list = append(list, move{kind, int8(i)})
		}
	}
	p := &w.parties[i]
	room := len(w.network) < w.plan.requests
	claiming, holds := p.id != "" && p.life.Phase() == lifecycle.Claiming, p.holds()
	free := p.idle() && !p.cleansUp && room
	// The processes are alike at first, so they begin in order.
	asking := free && int(p.claims) < w.plan.claims && (i == 0 || w.parties[i-1].claims > 0) || claiming && p.awaited == 0 && room && !p.adopted
	may(asking, moveAcquire)
	may(asking, moveAcquireAnswered)
	may(free && w.handover != nil && (w.plan.deaths > 0 || w.handover.from != int8(i)), moveAdopt)
	may(p.cleansUp && room && p.tryAt.Left(p.now()) <= 0 &&
		!slices.ContainsFunc(w.network, func(r request) bool { return r.kind == 'c' && r.from == int8(i) }), moveCleanUp)
	may(claiming && p.awaited == 0, moveAbandon)
	may(p.awaited != 0, moveNoAnswer)
	may(p.answer != nil, moveAnswer)
	may(w.writes[i].token != 0, moveWriteArrive)
	may(int(w.deaths) < w.plan.deaths && !p.idle(), moveKill)
	if !holds {
		return list
	}
	ends, _ := p.life.Next(p.now())
	renews := ends <= 0 && (room || !p.trustsLease())
	may(renews, moveDue)
	may(renews && room, moveDueAnswered)
	may(w.plan.otherSettings != nil && p.changes < 2, moveWantTTL)
	may(w.plan.metadata && p.changes < 2, moveWantMetadata)
	may(w.plan.settings.Cadence == trust.Forever && room && p.awaited == 0 && !p.life.Over(), moveRenew)
	may(room, moveRelease)
	may(w.plan.handOver && w.handover == nil && p.awaited == 0 && p.life.CanHandOver(p.sent), moveHandOver)
	may(w.plan.fence && w.writes[i].token == 0 && p.trustsLease(), moveWrite)
	return list
}

// do makes a move.
func (w *world) do(m move) {
	i := int(m.at)
	switch m.kind {
	case moveTick:
		w.pass(i)
	case moveArrive, moveArriveCopied, moveArriveLate:
		w.arrive(i, m.kind == moveArriveCopied, m.kind == moveArriveLate)
	case moveRead:
		w.readRecord(i)
	case moveLoseRequest:
		w.lose(i)
	case moveAskBreak:
		w.operator = w.backend.record.Token
		w.breaks++
	case moveBreak, moveBreakAtOnce:
		w.breakLease(m.kind == moveBreakAtOnce)
	case moveForget:
		w.forget()
	case moveSetClockBack:
		w.backend.setBack = true
	case moveFailOver:
		w.failOver()
	case moveWriteArrive:
		w.admit(i)
	default:
		w.act(i, m.kind)
	}
}

// pass advances the time by a tick. Requests that are too old are lost.
func (w *world) pass(stopped int) {
	w.time += tick
	for i := range w.parties {
		p := &w.parties[i]
		if p.lag = min(p.lag+1, lagging); i == stopped {
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

// describe describes a move in this state.
func (w *world) describe(m move) string {
	switch m.kind {
	case moveTick:
		if m.at >= 0 {
			return fmt.Sprintf("a tick passes, but not on the clock of process %d", m.at)
		}
		return "a tick passes"
	case moveArrive, moveArriveCopied, moveArriveLate, moveRead, moveLoseRequest:
		r := w.network[m.at]
		kinds := map[byte]string{'a': "acquire", 'n': "renewal", 'r': "release", 'c': "clean-up"}
		what := map[byte]string{moveArrive: "arrives", moveArriveCopied: "arrives, and a copy will", moveArriveLate: "arrives, and its answer comes late", moveRead: "reads the record", moveLoseRequest: "is lost"}
		return fmt.Sprintf("%s %d of process %d %s (claim %s)", kinds[r.kind], r.no, r.from, what[m.kind], r.id)
	case moveAnswer:
		if err := w.parties[m.at].answer.Err; err != nil {
			return fmt.Sprintf("process %d gets an answer: %v", m.at, err)
		}
		return fmt.Sprintf("process %d gets an answer: granted", m.at)
	case moveWantTTL:
		return fmt.Sprintf("process %d wants a TTL of %v", m.at, w.nextSettings(&w.parties[m.at]).TTL)
	case moveWriteArrive:
		return fmt.Sprintf("the resource gets the write of process %d, with token %d", m.at, w.writes[m.at].token)
	case moveAskBreak:
		return fmt.Sprintf("an operator wants to break the lease with token %d", w.backend.record.Token)
	}
	if m.kind < moveAcquire {
		return map[byte]string{
			moveBreak: "the break arrives", moveBreakAtOnce: "the break arrives, which frees the name at once",
			moveForget: "the backend forgets the name", moveSetClockBack: "the backend's clock is set back", moveFailOver: "the backend fails over, and loses its latest write",
		}[m.kind]
	}
	return fmt.Sprintf("process %d %s", m.at, map[byte]string{
		moveAcquire: "asks for the name", moveAcquireAnswered: "asks for the name, and is answered at once", moveAdopt: "adopts the claim", moveCleanUp: "cleans up",
		moveAbandon: "gives its claim up", moveNoAnswer: "gets no answer", moveDue: "finds its lease due", moveDueAnswered: "finds its lease due, and is answered at once",
		moveWantMetadata: "wants other metadata", moveRenew: "renews by hand", moveRelease: "releases", moveHandOver: "hands its lease over", moveKill: "is killed, and restarted", moveWrite: "writes to the resource",
	}[m.kind])
}
