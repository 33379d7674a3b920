package sequencetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/memsequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/require"
)

// The rules of package memsequence are the executable form of the contract. This test draws random requests, sends each to the
// store and to a store in memory, and compares answers, entries, audits, queues and rows. Leases do not run out during the
// test, but are ended by Expire, so that the results do not depend on clocks.
func randomRequestsMeetTheRules[Tx any](f *fixture[Tx]) {
	steps := 600
	if testing.Short() {
		steps /= 3
	}
	seed := rand.Uint64()
	m := &model[Tx]{
		fixture: f, random: rand.New(rand.NewPCG(seed, 0)), rules: memsequence.New(),
		stores: []sequence.Store[Tx]{f.store, f.db.Open(f.T)}, story: []string{fmt.Sprint("seed ", seed)},
	}
	require.NoError(f, m.rules.CreateStream(f.ctx, stream))
	for step := range steps {
		m.step()
		if step%10 == 0 || step == steps-1 {
			m.compare()
		}
	}
}

// model is a random history of requests.
type model[Tx any] struct {
	*fixture[Tx]
	random *rand.Rand
	rules  *memsequence.Store
	stores []sequence.Store[Tx] // of two processes
	story  []string
	issued int64    // the last number
	ops    int      // operations so far
	claims []string // their IDs
	items  [][2]int64

	mu   sync.Mutex
	rows []string // as the rules expect
}

// errOwn is an error from the caller's own write.
var errOwn = errors.New("the write's own")

// send is like compareAnswers, for requests whose answer is not needed afterwards.
func (m *model[Tx]) send(what string, request func(store sequence.Store[Tx]) (any, error), rules func() (any, error)) {
	m.Helper()
	_, _ = m.compareAnswers(what, request, rules)
}

// compareAnswers sends a request to the store and to the rules, and compares errors and answers.
func (m *model[Tx]) compareAnswers(what string, request func(store sequence.Store[Tx]) (any, error), rules func() (any, error)) (any, error) {
	m.Helper()
	m.story = append(m.story, what)
	got, err := request(m.stores[m.random.IntN(len(m.stores))])
	want, wanted := rules()
	m.story[len(m.story)-1] += " → " + answer(wanted)
	require.Equal(m, answer(wanted), answer(err), "%v\n%s", err, strings.Join(m.story, "\n"))
	if wanted == nil {
		require.Equal(m, normalize(want), normalize(got), strings.Join(m.story, "\n"))
	}
	return got, err
}

// answer returns the part of an error that the rules determine.
func answer(err error) string {
	late, open, ended := (*sequence.LateCommitError)(nil), (*sequence.OpenError)(nil), (*sequence.EndedError)(nil)
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &late):
		return fmt.Sprintf("late to %s: expired %t, %v", late.Op, late.Expired, normalize(late.Entry))
	case errors.As(err, &open):
		return fmt.Sprint("open: ", open.Lowest)
	case errors.As(err, &ended):
		return fmt.Sprint("ended: ", normalize(ended.Entry))
	}
	for _, known := range []error{sequence.ErrOtherPayload, sequence.ErrUnknownStream, sequence.ErrNotFound, leasing.ErrInvalid, errOwn} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "unknown: " + err.Error()
}

// normalize returns an answer in a form that is equal for two stores: times are relative to the start of the lease, and rounded
// to ten minutes.
func normalize(answer any) any {
	switch a := answer.(type) {
	case sequence.Entry:
		since := func(t time.Time) string {
			if t.IsZero() {
				return "never"
			}
			return t.Sub(a.LeasedAt).Round(10 * time.Minute).String()
		}
		text := fmt.Sprintf("%d %s of %q (%q) by %q under %d, ends %s, closed %s, filled %s, renewed %d, claimed %q by %q until %s, failed %d, not before %s: %q, from %d, by %d: %q, %q, work %q %q, uncleaned %t",
			a.Seq, a.State, a.Op, a.Kind, a.Owner, a.Token, since(a.ExpiresAt), since(a.ClosedAt), since(a.FilledAt), a.Renewals, a.ClaimID, a.ClaimOwner, since(a.ClaimUntil),
			a.Attempts, since(a.NotBefore), a.LastError, a.Origin, a.ReplacedBy, a.Reason, a.Payload, a.Work.Phase, a.Work.Data, a.Uncleaned)
		return strings.ReplaceAll(text, "-0s", "0s")
	case []sequence.Entry:
		var all []any
		for _, e := range a {
			all = append(all, normalize(e))
		}
		return all
	case sequence.Status:
		return fmt.Sprintf("last %d, watermark %d, sealed %d, open %d, expired %d, claimable %d, gaps %d, recovery %t", a.Last, a.Watermark, a.Sealed, a.Open, a.Expired, a.Claimable, a.Gaps, !a.RecoveryUntil.IsZero())
	case []sequence.Event:
		var all []any
		for _, e := range a {
			all = append(all, fmt.Sprint(e.Seq, e.Event, e.Who, e.Token))
		}
		return all
	case sequence.ManualItem:
		return fmt.Sprintf("%d %q %q %q, decided %t by %q", a.Seq, a.Op, a.Payload, a.Reason, !a.ResolvedAt.IsZero(), a.ResolvedBy)
	case []sequence.ManualItem:
		var all []any
		for _, item := range a {
			all = append(all, normalize(item))
		}
		return all
	case seqstore.Page:
		return fmt.Sprint(normalize(a.Entries), a.Through, a.Last, a.Before != "")
	case [2]sequence.Entry:
		return fmt.Sprint(normalize(a[0]), normalize(a[1]))
	}
	return answer
}

func pick[T any](random *rand.Rand, list ...T) T { return list[random.IntN(len(list))] }

// seq draws a number, usually one of the latest, and sometimes one that was never issued.
func (m *model[Tx]) seq() int64 {
	return max(0, m.issued+1-m.random.Int64N(6))
}

// entry draws a number, usually one in the given state, and returns its entry and token, if any; sometimes it returns
// another token.
func (m *model[Tx]) entry(state sequence.State) (e sequence.Entry, token int64) {
	e.Seq = m.seq()
	page, err := m.rules.Read(m.ctx, seqstore.ReadRequest{Stream: stream, From: e.Seq, Limit: 1, States: anyState})
	require.NoError(m, err)
	if len(page.Entries) > 0 && page.Entries[0].Seq == e.Seq {
		e = page.Entries[0]
	}
	if m.random.IntN(4) > 0 {
		page, err = m.rules.Read(m.ctx, seqstore.ReadRequest{Stream: stream, From: 1, Limit: 20, States: []sequence.State{state}})
		require.NoError(m, err)
		if len(page.Entries) > 0 {
			e = pick(m.random, page.Entries...)
		}
	}
	return e, max(1, e.Token+pick[int64](m.random, 0, 0, 0, 0, 0, 1, -1))
}

var anyState = []sequence.State{sequence.Leased, sequence.Recovering, sequence.Committed, sequence.Recovered, sequence.Gap, sequence.Filled, sequence.Sealed}

func (m *model[Tx]) op() string {
	if m.ops > 0 && m.random.IntN(4) == 0 {
		return fmt.Sprint("op ", m.ops-m.random.IntN(min(m.ops, 6)))
	}
	m.ops++
	return fmt.Sprint("op ", m.ops)
}

func (m *model[Tx]) payload(of string) []byte {
	return pick(m.random, []byte(of), []byte(of), []byte(of), []byte("other"), nil)
}

func (m *model[Tx]) leaseRequest() seqstore.LeaseRequest {
	return seqstore.LeaseRequest{
		Stream: pick(m.random, stream, stream, stream, stream, stream, stream, stream, "unknown"), Op: m.op(), Kind: pick(m.random, "", "kind"), Owner: "owner",
		Duration: pick(m.random, time.Hour, 2*time.Hour, 3*time.Minute),
	}
}

// writes draws the caller's write, for the store and for the rules: a row, an error, or no write.
func (m *model[Tx]) writes() (write sequence.Write[Tx], rules sequence.Write[memsequence.Tx]) {
	row := fmt.Sprint("row ", len(m.story))
	switch m.random.IntN(4) {
	case 0:
		return nil, nil
	case 1:
		return func(ctx context.Context, tx Tx, _ sequence.Entry) error {
				return errors.Join(m.db.Insert(ctx, tx, row), errOwn)
			}, func(context.Context, memsequence.Tx, sequence.Entry) error {
				return errOwn
			}
	}
	return m.insert(row), func(_ context.Context, tx memsequence.Tx, _ sequence.Entry) error {
		tx.OnCommit(func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.rows = append(m.rows, row)
		})
		return nil
	}
}

// step sends one request.
func (m *model[Tx]) step() {
	draw := m.random.IntN(19)
	e, token := m.entry(map[bool]sequence.State{draw < 12: sequence.Leased, draw >= 12: sequence.Recovering, draw == 15: sequence.Gap}[true])
	switch draw {
	case 0, 1, 2:
		m.leases()
	case 3:
		req := seqstore.RenewRequest{Stream: stream, Seq: e.Seq, Token: token, Duration: pick(m.random, time.Hour, 3*time.Hour)}
		m.send(fmt.Sprintf("renew %+v", req), func(s sequence.Store[Tx]) (any, error) { return s.Renew(m.ctx, req) }, func() (any, error) { return m.rules.Renew(m.ctx, req) })
	case 4, 5:
		req := seqstore.SaveRequest{Stream: stream, Seq: e.Seq, Token: token, Work: sequence.Work{Phase: pick(m.random, sequence.Partial, sequence.Completed), Data: m.payload(e.Op)}}
		m.send(fmt.Sprintf("save %+v", req), func(s sequence.Store[Tx]) (any, error) { return nil, s.Save(m.ctx, req) }, func() (any, error) { return nil, m.rules.Save(m.ctx, req) })
	case 6, 7, 8:
		m.commits(e, token)
	case 9:
		req := seqstore.ReleaseRequest{Stream: stream, Seq: e.Seq, Token: token}
		m.send(fmt.Sprintf("release %+v", req), func(s sequence.Store[Tx]) (any, error) { return nil, s.Release(m.ctx, req) }, func() (any, error) { return nil, m.rules.Release(m.ctx, req) })
	case 10, 11:
		m.send(fmt.Sprint("expire ", e.Seq), func(s sequence.Store[Tx]) (any, error) { return nil, s.Expire(m.ctx, stream, e.Seq) }, func() (any, error) { return nil, m.rules.Expire(m.ctx, stream, e.Seq) })
	case 12:
		m.claimsOne()
	case 13, 14:
		m.resolves(e, token)
	case 15:
		req := seqstore.FillRequest{Stream: stream, Seq: e.Seq, Op: pick(m.random, e.Op, e.Op, e.Op, "another"), Payload: m.payload(e.Op)}
		write, rules := m.writes()
		m.send(fmt.Sprintf("fill %+v", req), func(s sequence.Store[Tx]) (any, error) { return s.Fill(m.ctx, req, write) }, func() (any, error) { return m.rules.Fill(m.ctx, req, rules) })
	case 16:
		m.maintain(e)
	case 17:
		m.queues(e)
	default:
		m.claimed(e, token)
	}
}

func (m *model[Tx]) leases() {
	req := m.leaseRequest()
	got, err := m.compareAnswers(fmt.Sprintf("lease %+v", req), func(s sequence.Store[Tx]) (any, error) { return s.Lease(m.ctx, req) }, func() (any, error) { return m.rules.Lease(m.ctx, req) })
	if err == nil {
		m.issued = max(m.issued, got.(sequence.Entry).Seq)
	}
}

func (m *model[Tx]) commits(e sequence.Entry, token int64) {
	req := seqstore.CommitRequest{Stream: stream, Seq: e.Seq, Token: token, Payload: m.payload(e.Op), InOrder: m.random.IntN(3) == 0}
	write, rules := m.writes()
	if m.random.IntN(2) == 0 {
		m.send(fmt.Sprintf("commit %+v", req), func(s sequence.Store[Tx]) (any, error) { return s.Commit(m.ctx, req, write) }, func() (any, error) { return m.rules.Commit(m.ctx, req, rules) })
		return
	}
	next := m.leaseRequest()
	next.Stream = stream
	none := false // a store need not lease a number if that is not cheaper
	got, err := m.compareAnswers(fmt.Sprintf("commit %+v, and lease %+v", req, next), func(s sequence.Store[Tx]) (any, error) {
		done, leased, err := s.CommitAndLease(m.ctx, req, next, write)
		none = leased.Seq == 0
		return [2]sequence.Entry{done, leased}, err
	}, func() (any, error) {
		if none && write == nil {
			done, err := m.rules.Commit(m.ctx, req, rules)
			return [2]sequence.Entry{done, {}}, err
		}
		done, leased, err := m.rules.CommitAndLease(m.ctx, req, next, rules)
		return [2]sequence.Entry{done, leased}, err
	})
	if err == nil {
		m.issued = max(m.issued, got.([2]sequence.Entry)[1].Seq)
	}
}

func (m *model[Tx]) claimsOne() {
	req := seqstore.ClaimRequest{Stream: stream, Owner: "cleaner", ID: fmt.Sprint("claim ", len(m.story)), Duration: time.Hour}
	m.claims = append(m.claims, req.ID)
	m.send("claim "+req.ID, func(s sequence.Store[Tx]) (any, error) {
		e, ok, err := s.Claim(m.ctx, req)
		if !ok {
			return false, err
		}
		return e, err
	}, func() (any, error) {
		e, ok, err := m.rules.Claim(m.ctx, req)
		if !ok {
			return false, err
		}
		return e, err
	})
}

// claimed draws a cleaner's request about a claim, except Resolve.
func (m *model[Tx]) claimed(e sequence.Entry, token int64) {
	if len(m.claims) == 0 || m.random.IntN(2) == 0 {
		req := seqstore.RenewRequest{Stream: stream, Seq: e.Seq, Token: token, Duration: 2 * time.Hour}
		m.send(fmt.Sprintf("extend %+v", req), func(s sequence.Store[Tx]) (any, error) { return nil, s.ExtendClaim(m.ctx, req) }, func() (any, error) { return nil, m.rules.ExtendClaim(m.ctx, req) })
		return
	}
	id := m.claims[len(m.claims)-1-m.random.IntN(min(len(m.claims), 3))]
	m.send("release "+id, func(s sequence.Store[Tx]) (any, error) { return nil, s.ReleaseClaim(m.ctx, stream, id) }, func() (any, error) { return nil, m.rules.ReleaseClaim(m.ctx, stream, id) })
}

func (m *model[Tx]) resolves(e sequence.Entry, token int64) {
	req := seqstore.ResolveRequest{
		Stream: stream, Seq: e.Seq, Token: token, Owner: "cleaner", Outcome: pick(m.random, sequence.OutcomeRecovered, sequence.OutcomeGap, seqstore.OutcomeFailed),
		Payload: m.payload(e.Op), Reason: pick(m.random, "", "why"), RetryAfter: pick(m.random, 0, time.Hour), MaxAttempts: pick(m.random, 0, 1, 2), Uncleaned: m.random.IntN(2) == 0,
	}
	write, rules := m.writes()
	got, err := m.compareAnswers(fmt.Sprintf("resolve %+v", req), func(s sequence.Store[Tx]) (any, error) { return s.Resolve(m.ctx, req, write) }, func() (any, error) { return m.rules.Resolve(m.ctx, req, rules) })
	if err == nil {
		m.issued = max(m.issued, got.(sequence.Entry).Seq)
	}
}

// maintain draws a request about the stream as a whole.
func (m *model[Tx]) maintain(e sequence.Entry) {
	upTo, limit := pick(m.random, 0, m.seq(), m.issued/2, m.issued-8), 1+m.random.IntN(5)
	switch m.random.IntN(6) {
	case 0, 1:
		upTo = max(0, upTo)
		m.send(fmt.Sprint("seal ", upTo), func(s sequence.Store[Tx]) (any, error) { return s.Seal(m.ctx, stream, upTo) }, func() (any, error) { return m.rules.Seal(m.ctx, stream, upTo) })
	case 2:
		m.send(fmt.Sprint("forget ", upTo, limit), func(s sequence.Store[Tx]) (any, error) { return s.Forget(m.ctx, stream, upTo, limit) }, func() (any, error) { return m.rules.Forget(m.ctx, stream, upTo, limit) })
	case 3:
		m.send("enter recovery", func(s sequence.Store[Tx]) (any, error) { return s.EnterRecovery(m.ctx, stream, time.Hour) }, func() (any, error) { return m.rules.EnterRecovery(m.ctx, stream, time.Hour) })
	case 4:
		m.send("leave recovery", func(s sequence.Store[Tx]) (any, error) { return s.LeaveRecovery(m.ctx, stream) }, func() (any, error) { return m.rules.LeaveRecovery(m.ctx, stream) })
	default:
		m.send(fmt.Sprint("cleaned ", e.Seq), func(s sequence.Store[Tx]) (any, error) { return nil, s.Cleaned(m.ctx, stream, e.Seq) }, func() (any, error) { return nil, m.rules.Cleaned(m.ctx, stream, e.Seq) })
	}
}

// queues puts work into the manual queue, or decides on an item, sometimes a second time.
func (m *model[Tx]) queues(e sequence.Entry) {
	if len(m.items) == 0 || m.random.IntN(2) == 0 {
		item := sequence.ManualItem{Stream: stream, Seq: e.Seq, Op: e.Op, Payload: m.payload(e.Op), Reason: "why"}
		m.send(fmt.Sprintf("enqueue %+v", item), func(s sequence.Store[Tx]) (any, error) { return nil, s.Enqueue(m.ctx, item) }, func() (any, error) { return nil, m.rules.Enqueue(m.ctx, item) })
		got, err := m.store.Manual(m.ctx, stream, 1000)
		require.NoError(m, err)
		want, err := m.rules.Manual(m.ctx, stream, 1000)
		require.NoError(m, err)
		require.Equal(m, normalize(want), normalize(got), strings.Join(m.story, "\n"))
		if last := len(got) - 1; last >= 0 {
			m.items = append(m.items, [2]int64{got[last].ID, want[last].ID})
		}
		return
	}
	item, by := m.items[m.random.IntN(len(m.items))], pick(m.random, "ann", "bob", "")
	m.send(fmt.Sprint("decide ", item[1], " by ", by), func(s sequence.Store[Tx]) (any, error) {
		return nil, s.ResolveManual(m.ctx, item[0], by)
	}, func() (any, error) { return nil, m.rules.ResolveManual(m.ctx, item[1], by) })
	m.send(fmt.Sprint("item ", item[1]), func(s sequence.Store[Tx]) (any, error) { return s.FindManual(m.ctx, item[0]) }, func() (any, error) { return m.rules.FindManual(m.ctx, item[1]) })
}

// compare sends all read requests.
func (m *model[Tx]) compare() {
	m.send("status", func(s sequence.Store[Tx]) (any, error) { return s.Status(m.ctx, stream) }, func() (any, error) { return m.rules.Status(m.ctx, stream) })
	m.send("lowest", func(s sequence.Store[Tx]) (any, error) { return s.LowestOpen(m.ctx, stream) }, func() (any, error) { return m.rules.LowestOpen(m.ctx, stream) })
	for _, req := range []seqstore.ReadRequest{
		{From: 1, Limit: 1000, States: anyState}, {From: m.seq(), Limit: 3}, {From: 1, Limit: 1000, Sealed: true}, {From: m.seq() / 2, Limit: 5, Uncleaned: true},
		{From: 1, Limit: 4, States: []sequence.State{pick(m.random, anyState...)}},
	} {
		req.Stream = stream
		m.send(fmt.Sprintf("read %+v", req), func(s sequence.Store[Tx]) (any, error) { return s.Read(m.ctx, req) }, func() (any, error) { return m.rules.Read(m.ctx, req) })
	}
	op := m.op()
	m.send("find "+op, func(s sequence.Store[Tx]) (any, error) { return s.Find(m.ctx, stream, op) }, func() (any, error) { return m.rules.Find(m.ctx, stream, op) })
	from := m.seq() / 2
	m.send("events", func(s sequence.Store[Tx]) (any, error) { return s.Events(m.ctx, stream, from, 1000) }, func() (any, error) { return m.rules.Events(m.ctx, stream, from, 1000) })
	m.mu.Lock()
	defer m.mu.Unlock()
	require.ElementsMatch(m, m.rows, m.db.Rows(m.T), strings.Join(m.story, "\n"))
}
