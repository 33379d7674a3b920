package redislease

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
)

// member makes a node one of a Redlock's: its marker, and what this process knows of
// its server.
//
// A server that was started again may have lost leases: all of them, or the latest if
// it came back from a snapshot. It has lost its scripts too. So the text of a Redlock's
// scripts names the run of the server that it is for, and a script is loaded only on a
// connection on which scripts/admit.lua has looked at that run just before: a connection
// does not outlive a run. So no server knows the scripts of an earlier run, and a process
// that asks for those looks at the marker, of its own prefix and database, before
// anything that the server says counts.
type member struct {
	marker  string // the key
	longest string // Options.MaxTTL, in milliseconds
	run     atomic.Pointer[run]
	// until is when a quarantine ends by this process' monotonic clock, at the earliest;
	// nil if it has found none. The server's wall clock may be set forward meanwhile.
	until atomic.Pointer[time.Time]
	// met refuses a run that this process has met at another address.
	met func(a admission) error
}

// run is a server from one start to the next.
type run struct {
	id, first string // first wrote the first marker
	scripts   map[*program]source
}

// redlockPrograms are the scripts that a Redlock sends.
var redlockPrograms = []*program{
	voteScript, confirmScript, undoScript, relockScript, releaseScript, breakScript, inspectScript, leaveScript,
}

// admitText is sent as text: servers that know it have nothing else to tell.
var admitText = read("admit")

// What admit.lua may be asked to do.
const (
	admitServer     = "admit"
	lookAtServer    = "look"
	bootstrapServer = "bootstrap"
)

// admission is the reply of admit.lua.
type admission struct {
	run, first string
	left       int64 // of the quarantine, in milliseconds
	isNew      bool  // it has had no vote since it had no data
}

// errAdmission is for a reply that is not admit.lua's.
var errAdmission = fmt.Errorf("%w: the server's run can't be read", abstractions.ErrUnavailable)

// ask runs admit.lua. Scripts may be loaded on the same connection once the server was
// admitted.
func (m *member) ask(ctx context.Context, c redis.Scripter, verb string) (a admission, err error) {
	sent := time.Now()
	values, err := c.Eval(ctx, admitText, []string{m.marker}, verb, m.longest).Slice()
	if err != nil {
		return a, err
	}
	l := list{rest: values}
	a = admission{run: l.text(), first: l.text(), left: l.int(), isNew: l.int() == 1}
	if l.bad {
		return a, errAdmission
	}
	if err := m.met(a); err != nil {
		return a, err
	}
	if known := m.run.Load(); verb == admitServer && (known == nil || known.id != a.run) {
		m.run.Store(newRun(a))
	}
	if a.left > 0 {
		until := sent.Add(millis(a.left))
		m.until.Store(&until)
	}
	return a, nil
}

// quarantine is how much is left of it.
func (m *member) quarantine() time.Duration {
	if until := m.until.Load(); until != nil {
		return time.Until(*until)
	}
	return 0
}

func newRun(a admission) *run {
	r := &run{id: a.run, first: a.first, scripts: make(map[*program]source, len(redlockPrograms))}
	for _, p := range redlockPrograms {
		r.scripts[p] = p.forRun(a.run)
	}
	return r
}
