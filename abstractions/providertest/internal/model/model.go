package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// Checks has one check. The rules of package providerkit are the executable form of the contract. The
// check draws random requests, sends each to the provider, applies the rules to
// a record of its own, and compares answers, records and histories.
var Checks = []suite.Check{
	{Name: "Model_RandomRequestsMeetTheRules", Run: func(e *suite.Env) {
		atOnce := 4
		if e.Virtual || e.Advance != nil { // moving the clock affects all stories
			atOnce = 1
		}
		names := modelNames
		if testing.Short() && !e.Virtual { // a server's answers take most of the time
			names /= 3
		}
		suite.SideBySide(atOnce, func(int) {
			for range names / atOnce {
				newModel(e).play()
			}
		})
	}},
}

const (
	modelNames = 12 // each with a separate story
	modelSteps = 60 // of a story
	// modelClaims is the number of the latest claims that take part. A provider must
	// remember the IDs of all of them that have ended: see Provider.Acquire.
	modelClaims = 4
)

// model is the state of one name according to the rules.
type model struct {
	e      *suite.Env
	random *rand.Rand
	name   string
	record providerkit.Record
	// The lease ends between these times of Env.Now, unless it is infinite.
	earliest, latest time.Time
	acquired         time.Time     // by the backend's clock, once a record has shown it
	slowest          time.Duration // the duration of the slowest request: times from the clocks of several servers may differ by as much
	claims           []*modelClaim // the latest last
	history          []abstractions.HistoryEntry
	story            []string
}

// modelClaim is a claim that takes part, whether or not it was ever granted.
type modelClaim struct {
	req    abstractions.AcquireRequest
	token  int64 // as last granted; 1 before a grant
	states []any // of its grants
}

func newModel(e *suite.Env) *model {
	seed := rand.Uint64()
	m := &model{e: e, random: rand.New(rand.NewPCG(seed, 0)), name: e.Name()}
	m.record.Name = m.name
	m.story = []string{fmt.Sprintf("seed %d, name %s", seed, m.name)}
	return m
}

func (m *model) play() {
	for range modelSteps {
		if !m.step() {
			break
		}
	}
	m.compareHistory()
	m.compareListing()
}

// step sends one request. It returns false when the story has to end, since a
// lease is about to run out by itself.
func (m *model) step() bool {
	m.updateNow()
	if m.record.Held() && m.record.Left != abstractions.Infinite && m.earliest.Sub(m.e.Now()) < m.record.TTL/4 {
		return false
	}
	c := m.claim()
	switch draw := m.random.IntN(16); {
	case draw < 4:
		m.acquire(c, m.ttl())
	case draw < 10:
		m.renew(c, m.ttl())
	case draw < 12:
		m.release(c)
	case draw < 14:
		m.breakLease()
	default:
		m.runOut(c)
	}
	return m.compareRecord()
}

// updateNow updates the record's time from the clock.
func (m *model) updateNow() {
	m.record.Now = m.e.Now()
	if m.record.ID != "" && m.record.Left != abstractions.Infinite {
		m.record.Left = m.latest.Sub(m.record.Now)
	}
}

// claim draws the holder, an earlier claim, or a new claim.
func (m *model) claim() *modelClaim {
	for _, c := range m.claims {
		if c.req.ID == m.record.ID && m.random.IntN(3) > 0 {
			return c
		}
	}
	if len(m.claims) > 0 && m.random.IntN(3) > 0 && (m.record.Held() || m.random.IntN(2) == 0) {
		return m.claims[m.random.IntN(len(m.claims))]
	}
	c := &modelClaim{req: m.e.Request(m.name), token: 1}
	c.req.Owner, c.req.Metadata = pick(m.random, []string{"owner", `host "1", process 7 (наш)`}), m.metadata()
	m.claims = append(m.claims, c)
	for i, old := range m.claims {
		if len(m.claims) > modelClaims && old.req.ID != m.record.ID {
			m.claims = append(m.claims[:i:i], m.claims[i+1:]...)
			break
		}
	}
	return c
}

// metadata draws a map. Providers must return the map's texts unchanged, even texts that stores
// tend to change.
func (m *model) metadata() map[string]string {
	return pick(m.random, []map[string]string{
		nil, {}, {"k": "v"},
		{"Case": "1", "case": "2", "CASE": ""},
		{"dash-ed": "1", "under_score": "2", "dot.ted": "3", "sp ace": "4", "1st": "5", "схема": "имя", "$key": "6", "a/b": "7"},
		{"value": " leading, trailing \n\t\r\"'\\ü %41 %s <>&   日本語 🔒 "},
		{"json": `{"a":[1,2.50,null]}`, "number": "9007199254740993", "bool": "true"},
		{"long": strings.Repeat("é", 2000)},
	})
}

// ttl draws a TTL that does not run out during a story.
func (m *model) ttl() time.Duration {
	ttls := []time.Duration{m.e.Long, m.e.Long, suite.Grantable(m.e.Long/2, m.e.Caps)}
	if m.e.Caps.Infinite {
		ttls = append(ttls, abstractions.Infinite)
	}
	return pick(m.random, ttls)
}

func pick[T any](random *rand.Rand, list []T) T { return list[random.IntN(len(list))] }

// logf adds a line to the story, which failures print.
func (m *model) logf(format string, args ...any) {
	m.story = append(m.story, fmt.Sprintf(format, args...))
}

func duration(d time.Duration) string {
	if d == abstractions.Infinite {
		return "ever"
	}
	return d.String()
}

func (m *model) text() string { return strings.Join(m.story, "\n  ") }

// client draws one of the two clients.
func (m *model) client() abstractions.Provider {
	return pick(m.random, []abstractions.Provider{m.e.P, m.e.Peer})
}

// prolong moves the end of the lease to ttl after a request, unless the lease already ends later.
func (m *model) prolong(sent, returned time.Time, ttl time.Duration, anew bool) {
	if m.record.Left == abstractions.Infinite {
		return
	}
	if anew {
		m.earliest, m.latest = time.Time{}, time.Time{}
	}
	if end := sent.Add(ttl); end.After(m.earliest) {
		m.earliest = end
	}
	if end := returned.Add(ttl); end.After(m.latest) {
		m.latest = end
	}
}

func (m *model) acquire(c *modelClaim, ttl time.Duration) {
	req := c.req
	req.TTL = ttl
	m.logf("acquire by %s for %s", req.ID, duration(ttl))
	before := m.record.Token
	repeated := m.record.Held() && m.record.ID == req.ID
	want := m.apply(m.record.Acquire(req))
	var grant abstractions.Grant
	sent, returned, err := m.call(func(ctx context.Context, p abstractions.Provider) (err error) {
		grant, err = p.Acquire(ctx, req)
		return err
	})
	m.sameHolder(err, sent, returned)
	if !m.sameError(want, err) {
		return
	}
	m.e.Equal(abstractions.Grant{Name: m.name, ID: req.ID, Token: grant.Token, TTL: ttl, State: grant.State}, grant, m.text())
	if repeated {
		m.e.Equal(before, grant.Token, m.text())
	} else {
		m.e.Greater(grant.Token, before, m.text())
	}
	m.record.Token = grant.Token
	m.granted(c, grant)
	m.prolong(sent, returned, ttl, !repeated)
	if !repeated { // the provider chose a different token than the rules
		m.history[len(m.history)-1].Token = grant.Token
		m.acquired = time.Time{}
	}
}

func (m *model) granted(c *modelClaim, grant abstractions.Grant) {
	c.token, c.states = grant.Token, append(c.states, grant.State)
}

// state draws the provider state of a request: the latest state, the state before that, as after a
// lost reply, or no state, as after an adoption by another process.
func (m *model) state(c *modelClaim) any {
	if len(c.states) == 0 || m.random.IntN(4) == 0 {
		return nil
	}
	return c.states[len(c.states)-1-m.random.IntN(min(2, len(c.states)))]
}

func (m *model) renew(c *modelClaim, ttl time.Duration) {
	req := abstractions.RenewRequest{Name: m.name, ID: c.req.ID, Token: c.token, TTL: ttl, State: m.state(c)}
	if m.random.IntN(4) == 0 {
		req.Token = max(1, pick(m.random, []int64{req.Token - 1, req.Token + 1, m.record.Token}))
	}
	if m.random.IntN(2) == 0 {
		req.Metadata = m.metadata()
	}
	m.logf("renew of %s with token %d for %s, metadata %v", req.ID, req.Token, duration(ttl), req.Metadata)
	want := m.apply(m.record.Renew(req))
	inBatch := m.random.IntN(2) == 0
	var grant abstractions.Grant
	sent, returned, err := m.call(func(ctx context.Context, p abstractions.Provider) (err error) {
		verb := p.Renew
		if batcher, ok := abstractions.As[abstractions.BatchRenewer](p); ok && inBatch {
			verb = suite.RenewInBatch(batcher)
		}
		grant, err = verb(ctx, req)
		return err
	})
	if c.token != req.Token && req.Token >= m.record.Token { // the token belongs to no claim, or to another claim: the renewal is lost, whatever the reason
		m.e.Lost(err)
		return
	}
	if !m.sameError(want, err) {
		return
	}
	m.e.Equal(abstractions.Grant{Name: m.name, ID: req.ID, Token: c.token, TTL: ttl, State: grant.State}, grant, m.text())
	m.granted(c, grant)
	m.prolong(sent, returned, ttl, true)
}

func (m *model) release(c *modelClaim) {
	req := abstractions.ReleaseRequest{Name: m.name, ID: c.req.ID, Token: c.token, State: m.state(c)}
	if len(c.states) == 0 || m.random.IntN(4) == 0 { // as for an attempt whose outcome is unknown
		req.Token, req.State = 0, nil
	}
	m.logf("release of %s with token %d", req.ID, req.Token)
	want := m.apply(m.record.Release(req))
	_, _, err := m.call(func(ctx context.Context, p abstractions.Provider) error { return p.Release(ctx, req) })
	m.sameError(want, err)
}

func (m *model) breakLease() {
	req := abstractions.BreakRequest{
		Name: m.name, Immediate: m.random.IntN(2) == 0, Grace: m.e.Long,
		Actor: pick(m.random, []string{"", "ops/änne"}), Reason: pick(m.random, []string{"", `host "n1" is gone; it's late`}),
		IfToken: pick(m.random, []int64{0, 0, m.record.Token, m.record.Token + 1, 1}),
	}
	m.logf("break %+v", req)
	infinite := m.record.Held() && m.record.Left == abstractions.Infinite
	result, change := m.record.Break(req)
	want := m.apply(change)
	var got abstractions.BreakResult
	sent, returned, err := m.call(func(ctx context.Context, p abstractions.Provider) (err error) {
		got, err = p.Break(ctx, req)
		return err
	})
	if !m.sameError(want, err) {
		return
	}
	if infinite && m.record.Breaking {
		m.prolong(sent, returned, req.Grace, true)
	}
	if result.Remaining > 0 {
		m.e.Positive(got.Remaining, m.text())
		if m.e.Caps.RemainingKnown {
			m.checkRemainingTime(got.Remaining, sent, returned)
		}
		result.Remaining = got.Remaining
	}
	m.e.Equal(result, got, m.text())
}

// runOut lets the lease run out, if that does not take long.
func (m *model) runOut(c *modelClaim) {
	e := m.e
	switch {
	case e.Virtual || e.Advance != nil:
	case e.Short > time.Second || m.record.Breaking:
		return
	case m.record.Held():
		for _, holder := range m.claims {
			if holder.req.ID == m.record.ID {
				m.renew(holder, e.Short)
			}
		}
	default:
		m.acquire(c, e.Short)
	}
	if !m.record.Held() || m.record.Left == abstractions.Infinite || m.record.TTL != e.Short && !e.Virtual && e.Advance == nil {
		return
	}
	m.logf("runs out")
	e.Watch(m.record.Name)
	e.SleepUntil(m.latest.Add(e.Caps.Lateness.After(m.record.TTL) + e.Tolerance(m.record.TTL)))
	m.updateNow()
}

// apply records the notes that the rules write to a history, and returns the rules' answer.
func (m *model) apply(c providerkit.Change) error {
	for _, note := range []providerkit.Note{c.Expired, c.Note} {
		if note.Kind != "" && note.Kind != abstractions.HistoryRenewed {
			m.history = append(m.history, note.Entry())
		}
	}
	return c.Err
}

// call sends a request with one of the two clients, and repeats it while the backend is busy.
func (m *model) call(request func(context.Context, abstractions.Provider) error) (sent, returned time.Time, err error) {
	p := m.client()
	sent = m.e.Now()
	err = m.e.Retry(func(ctx context.Context) error { return request(ctx, p) })
	returned = m.e.Now()
	m.slowest = max(m.slowest, returned.Sub(sent))
	return sent, returned, err
}

// sameError compares answers, and reports whether both calls succeeded.
func (m *model) sameError(want, got error) bool {
	m.logf("  → %v", got)
	m.e.Equal(answer(want), answer(got), m.text())
	for _, kind := range suite.Kinds {
		m.e.Equal(errors.Is(want, kind), errors.Is(got, kind), "%v: %s", kind, m.text())
	}
	return want == nil
}
