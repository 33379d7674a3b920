package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

// T18: claims compete for a name with the real scripts, one message at a time, in random order.
// Messages are lost or arrive too late, attempts are repeated, nodes lose their data, and leases run
// out on nodes that no claim relies on. There are never two holders, and tokens rise.
func TestTrap_T18_RedlockAgreementInEveryOrder(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{MaxTTL: time.Hour})
	p := r.process()
	p.Take("before", "x", time.Minute) // loads the script on the servers
	seeds, _ := strconv.ParseUint(os.Getenv("LEASING_TEST_SWEEP"), 10, 64)
	if seeds = max(seeds, 400); testing.Short() {
		seeds = 100
	}
	var granted, again, later atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for part := range uint64(8) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := part; seed < seeds; seed += 8 {
					m := newModel(t, r, p, seed)
					m.run()
					granted.Add(m.granted)
					again.Add(m.again)
					later.Add(m.later)
				}
			})
		}
	})
	t.Logf("%d leases, and %d that were asked for again, of which %d under a later token", granted.Load(), again.Load(), later.Load())
	require.Greater(t, granted.Load(), int64(seeds)*5/2)
	require.Greater(t, again.Load(), int64(seeds)/4)
	require.Less(t, later.Load(), again.Load()/2)
}

// model simulates one name. Each of its nodes is a name of its own, on one of the ring's servers.
type model struct {
	*rand.Rand
	t                     testing.TB
	p                     *process
	seed                  uint64
	base                  int64 // microseconds
	nodes                 []modelNode
	claims                []*modelClaim
	messages              []func()
	arrived               int   // claims
	losses, void          int   // number of losses, and the number before which all leases have run out
	latest                int64 // token that was granted to a claim
	by                    *modelClaim
	granted, again, later int64
	trace                 []string
}

type modelNode struct {
	keys        script.Keys
	at          int // server
	quarantined bool
	lost        int // the number of the loss after which the node is quarantined
}

type modelClaim struct {
	id      string
	attempt *modelAttempt // under way
	token   int64         // of the latest grant
	try     int64         // attempt that got the grant
	trusted bool
	counted map[int]bool // nodes that the holder counts
	since   int          // number of losses before the latest grant or renewal
	ended   bool
}

type modelAttempt struct {
	tally
	m        *model
	c        *modelClaim
	since    int // number of losses before the attempt
	over     bool
	onAnswer func(i int)
}

func newModel(t testing.TB, r *ring, p *process, seed uint64) *model {
	m := &model{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, p: p, seed: seed, base: time.Now().UnixMicro()}
	for i := range 3 + 2*m.IntN(2) {
		m.nodes = append(m.nodes, modelNode{keys: r.keys(fmt.Sprint("m", seed, "/", i)), at: i % 3})
	}
	m.claims = make([]*modelClaim, 2+m.IntN(2))
	for i := range m.claims {
		m.arrive(i)
	}
	return m
}

func (m *model) say(format string, args ...any) {
	m.trace = append(m.trace, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " | "))
}

// arrive replaces the i-th claim by a new claim.
func (m *model) arrive(i int) {
	m.arrived++
	m.claims[i] = &modelClaim{id: fmt.Sprint("c", m.arrived), counted: map[int]bool{}}
}

func (m *model) run() {
	for range 300 {
		i := m.IntN(len(m.claims))
		c := m.claims[i]
		switch n := m.IntN(24); {
		case n < 2 && c.attempt == nil:
			m.begin(c)
		case n == 2 && c.trusted:
			m.renew(c)
		case n == 3 && c.trusted && m.IntN(3) == 0:
			m.say("%s trusts no more", c.id)
			c.trusted = false
		case n == 4 && c.attempt == nil && m.IntN(3) == 0:
			m.release(c)
			m.arrive(i)
		case n == 5 || n == 6:
			m.expire(m.IntN(len(m.nodes)))
		case n == 7 && m.IntN(4) == 0:
			m.lose(m.IntN(len(m.nodes)))
		case n == 8:
			m.endQuarantine(m.IntN(len(m.nodes)))
		case len(m.messages) > 0:
			i = m.IntN(len(m.messages))
			message := m.messages[i]
			m.messages = slices.Delete(m.messages, i, i+1)
			message()
		default:
			if c.attempt == nil {
				m.begin(c)
			}
		}
	}
}

var what = map[*script.Program]string{script.Vote: "vote", script.Confirm: "confirm", script.Undo: "undo", script.Relock: "relock", script.Release: "release"}

// do runs an operation on a node.
func (m *model) do(i int, op script.Operation) script.Reply {
	if m.nodes[i].quarantined && op.Script != script.Release && op.Script != script.Undo {
		return script.Reply{Value: []any{int64(script.Quarantined), int64(1000), ""}}
	}
	if floor, err := strconv.ParseInt(op.Args[5], 10, 64); err == nil && floor < m.base { // the clocks have passed this token since
		op.Args[5] = fmt.Sprint(m.base)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	reply := m.p.redlock.nodes[m.nodes[i].at].Do(ctx, op)
	require.NoError(m.t, reply.Err)
	if op.Script == script.Relock && reply.Renewed() == nil { // the node keeps the lease until the reply is too late to count
		for _, c := range m.claims {
			c.counted[i] = c.counted[i] || strings.HasSuffix(op.Args[0], " "+c.id+"\n")
		}
	}
	m.say("  %s %v at %d: %v", what[op.Script], op.Args, i, reply.Value)
	return reply
}

// send runs an operation on a node and delivers its reply, both at random times, or never. lost runs
// when the attempt stops waiting for the reply.
func (m *model) send(i int, op script.Operation, onReply func(script.Reply), lost func()) {
	fate := m.IntN(8) // 0: the request is late; 1: its reply is lost
	if fate == 0 {
		m.messages = append(m.messages, lost)
	}
	m.messages = append(m.messages, func() {
		reply := m.do(i, op)
		switch fate {
		case 0:
		case 1:
			m.messages = append(m.messages, lost)
		default:
			m.messages = append(m.messages, func() { onReply(reply) })
		}
	})
}

func ignore(script.Reply) {}

// post is send for a request whose reply is ignored.
func (m *model) post(i int, op script.Operation) { m.send(i, op, ignore, func() {}) }

func (m *model) begin(c *modelClaim) {
	key := claimKey{fmt.Sprint("model ", m.seed), c.id}
	try, leave, err := takeTurn(context.Background(), key)
	require.NoError(m.t, err)
	leave()
	n := len(m.nodes)
	a := &modelAttempt{m: m, c: c, since: m.losses, tally: tallyOf(make([]vote, n)...)}
	a.try = try
	a.onAnswer = func(int) {}
	c.attempt = a
	m.say("%s begins %d", c.id, try)
	floor := m.base + int64(m.IntN(4))
	for i := range a.votes {
		v := &a.votes[i]
		op := m.nodes[i].keys.Vote(m.claim(c), try, floor)
		a.send(i, op, func(r script.Reply) { v.readVote(r, "name") })
	}
}

func (m *model) claim(c *modelClaim) script.Claim { return script.Claim{ID: c.id, TTL: time.Hour} }

// send fills in the attempt's vote when the reply is delivered.
func (a *modelAttempt) send(i int, op script.Operation, onReply func(script.Reply)) {
	v := &a.votes[i]
	v.pending = true
	replied := func(fill func()) func() {
		return func() {
			v.pending = false
			fill()
			if a.over {
				a.onAnswer(i)
			} else {
				a.next()
			}
		}
	}
	a.m.send(i, op, func(r script.Reply) { replied(func() { onReply(r) })() }, replied(func() { v.choice, v.unsure, v.err = noVote, true, errSilent }))
}

// next does the same as attempt.run.
func (a *modelAttempt) next() {
	m, c := a.m, a.c
	where, token, won := a.decide()
	switch {
	case where == agreed && won:
		a.win(token)
		return
	case where == agreed:
		a.token = token
		for i := range a.votes {
			if v := &a.votes[i]; v.isOurs() && !v.pending && v.token != token && v.before < token {
				a.send(i, m.nodes[i].keys.Confirm(m.claim(c), token, a.try), func(r script.Reply) { v.readConfirmation(r, token) })
			}
		}
		if a.count((*vote).isPending) > 0 {
			return
		}
	case where == undecided:
		return
	}
	since := a.try
	if !a.mayHaveWon() {
		since = 1
	}
	a.end(func(i int) {
		if v := &a.votes[i]; v.isOurs() || v.choice == noVote && v.unsure {
			m.post(i, m.nodes[i].keys.Undo(m.claim(c), a.try, since))
		}
	})
	m.say("%s gives %d up: %d, since %d", c.id, a.try, where, since)
}

// end settles the nodes, including nodes that answer later.
func (a *modelAttempt) end(onAnswer func(i int)) {
	a.over, a.c.attempt, a.onAnswer = true, nil, onAnswer
	for i := range a.votes {
		if !a.votes[i].pending {
			onAnswer(i)
		}
	}
}

func (a *modelAttempt) win(token int64) {
	m, c := a.m, a.c
	m.say("%s wins %d with %d", c.id, a.try, token)
	a.end(func(i int) {
		if v := &a.votes[i]; v.isOurs() && v.token != token {
			m.post(i, m.nodes[i].keys.Confirm(m.claim(c), token, a.try))
		}
	})
	if a.since < m.void || c.ended { // the attempt took too long, or the claim was given up
		return
	}
	for _, other := range m.claims {
		require.False(m.t, other != c && other.trusted, "seed %d: %s and %s\n%v", m.seed, other.id, c.id, m)
	}
	m.granted++
	switch {
	case m.by == nil || m.by != c:
		require.Greater(m.t, token, m.latest, "seed %d: %v", m.seed, m)
	default:
		require.GreaterOrEqual(m.t, token, m.latest, "seed %d: %v", m.seed, m)
		if c.trusted {
			m.again++
		}
		if c.trusted && token > m.latest {
			m.later++
		}
	}
	m.latest, m.by, c.token, c.try, c.trusted, c.since = token, c, token, a.try, true, a.since
	for i := range a.votes {
		if a.votes[i].isOurs() && a.votes[i].token == token {
			c.counted[i] = true
		}
	}
}

func (m *model) String() (text string) {
	for _, line := range m.trace {
		text += line + "\n"
	}
	return text
}

func (m *model) renew(c *modelClaim) {
	m.say("%s renews", c.id)
	since, try, ok, lost := m.losses, c.try, map[int]bool{}, 0
	req := abstractions.RenewRequest{ID: c.id, Token: c.token, TTL: time.Hour}
	for i := range m.nodes {
		m.send(i, m.nodes[i].keys.Relock(&req, "me\n", try), func(r script.Reply) {
			switch r.Renewed().(type) { //nolint:errorlint // not wrapped
			case nil:
				ok[i] = true
			case *abstractions.LostError:
				lost++
			}
			if !c.trusted || c.token != req.Token || since < m.void {
				return
			}
			if len(m.nodes)-lost <= len(m.nodes)/2 {
				c.trusted = false
			}
			if len(ok) > len(m.nodes)/2 {
				c.since = max(c.since, since)
			}
		}, func() {})
	}
}

// release gives the claim up, whether or not the claim was granted.
func (m *model) release(c *modelClaim) {
	m.say("%s is released", c.id)
	c.trusted, c.ended = false, true
	for i := range m.nodes {
		m.post(i, m.nodes[i].keys.Release(c.id))
	}
}

// countsOn reports whether a claim relies on a node.
func (c *modelClaim) countsOn(i int) bool {
	return c.trusted && c.counted[i] || c.attempt != nil && (c.attempt.votes[i].isOurs() || c.attempt.votes[i].pending)
}

// expire lets a lease run out on a node, if no claim relies on the node.
func (m *model) expire(i int) {
	admin, key := m.p.redlock.nodes[m.nodes[i].at].Client, m.nodes[i].keys.Name
	s := redistest.ReadStored(m.t, admin, key)
	if !s.Held() {
		return
	}
	for _, c := range m.claims {
		if c.id == s.ID && c.countsOn(i) {
			return
		}
	}
	m.say("%s runs out at %d", s.ID, i)
	s.Till = 1000
	redistest.WriteStored(m.t, admin, key, s)
}

// lose deletes a node's data and suspends its vote, if the others are a majority.
func (m *model) lose(i int) {
	quarantined := 0
	for _, node := range m.nodes {
		if node.quarantined {
			quarantined++
		}
	}
	if quarantined+1 > len(m.nodes)/2 || m.nodes[i].quarantined {
		return
	}
	m.say("%d loses its data", i)
	m.losses++
	m.nodes[i].quarantined, m.nodes[i].lost = true, m.losses
	require.NoError(m.t, m.p.redlock.nodes[m.nodes[i].at].Client.Del(m.t.Context(), m.nodes[i].keys.Name).Err())
}

// endQuarantine restores a node's vote: the longest TTL has passed since the loss.
func (m *model) endQuarantine(i int) {
	if !m.nodes[i].quarantined {
		return
	}
	m.say("%d votes again", i)
	m.nodes[i].quarantined, m.void = false, max(m.void, m.nodes[i].lost)
	for _, c := range m.claims {
		if c.since < m.void {
			c.trusted = false
		}
	}
	m.base = max(m.base, m.latest+1) // clocks have advanced
}
