package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
)

// member makes a node part of a Redlock. It has the node's marker, and the state of the server
// as last seen by this process.
//
// A restarted server may have lost leases: all of them, or the latest if it came back from a
// snapshot. It has also lost its scripts. So the text of a Redlock's scripts contains the ID of the
// server's run, and a script is loaded only on a connection on which scripts/redlock/admit.lua has
// just checked that ID: a connection does not outlive a run. So no server has the scripts of an
// earlier run, and a process that sends those scripts must check the marker, of its own prefix and
// database, before any answer from the server counts.
type member struct {
	marker string // the key
	maxTTL int64  // Options.MaxTTL, in milliseconds
	run    atomic.Pointer[run]
	// until is the earliest end of a quarantine by this process' monotonic clock, since the
	// server's wall clock may be set forward meanwhile; nil if this process knows of no quarantine.
	until    atomic.Pointer[time.Time]
	admitted func(a script.Admission) error
	// clientError is the method of the node with the same name.
	clientError func(error) error
}

// NewMember returns a node of a Redlock whose servers cast no vote for the duration longest after they
// have lost their data. admitted refuses a run that was seen at another address.
func NewMember(client redis.UniversalClient, timely bool, n script.Naming, longest time.Duration, admitted func(a script.Admission) error) *Node {
	d := New(client, timely, n)
	d.member, d.header[1] = &member{marker: n.Marker(), maxTTL: script.Milliseconds(longest), admitted: admitted, clientError: d.clientError}, "0"
	return d
}

// Admit runs admit.lua on the server, on any connection.
func (d *Node) Admit(ctx context.Context, verb string) (script.Admission, error) {
	return callDetached(ctx, d, func(ctx context.Context) (script.Admission, error) { return d.member.ask(ctx, d.Client, verb) })
}

// run is the run of a server from one start to the next.
type run struct {
	id      string
	scripts []script.Source // by their ranks
}

// Source returns a script with the ID of the server's run, or an empty script before the run is known.
func (d *Node) Source(p *script.Program) (none script.Source) {
	if r := d.member.run.Load(); r != nil {
		return r.scripts[p.Rank]
	}
	return none
}

// ask runs admit.lua. Scripts may be loaded on the same connection once the server has
// been admitted.
func (m *member) ask(ctx context.Context, c redis.Scripter, verb string) (a script.Admission, err error) {
	sent := time.Now()
	values, err := c.Eval(ctx, script.AdmitText, []string{m.marker}, verb, m.maxTTL).Slice()
	if err != nil {
		return a, m.clientError(err)
	}
	if a, err = script.ParseAdmission(values); err != nil {
		return a, err
	}
	if err = m.admitted(a); err != nil {
		return a, err
	}
	if known := m.run.Load(); verb == script.Admit && (known == nil || known.id != a.Run) {
		m.run.Store(&run{a.Run, script.ForRun(a.Run)})
	}
	if a.Left > 0 {
		until := sent.Add(a.Left)
		m.until.Store(&until)
	}
	return a, nil
}

// Quarantine returns the remaining time of the server's quarantine, as far as this process knows.
func (d *Node) Quarantine() time.Duration {
	if until := d.member.until.Load(); until != nil {
		return time.Until(*until)
	}
	return 0
}
