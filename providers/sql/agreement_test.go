package sqllease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// The rules are stated in Go, and their commonest outcomes in SQL as well. The
// same requests, in a random order, must meet the same fate everywhere: on
// PostgreSQL with its shortcuts and without them, and on SQLite.
func TestShortcutsAgreeWithTheRules(t *testing.T) {
	ctx := bounded(t)
	postgresTables, sqliteTables := databases["postgres"](t), databases["sqlite"](t)
	history := []string{"history", "true", "history_renewals", "true"}
	stores := []*Store{
		postgresTables(history...).store,
		postgresTables(append(history, "table", "plain")...).store,
		sqliteTables(history...).store,
	}
	stores[1].backend = withoutShortcuts{stores[1].backend}

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	model := newModel(random)
	for step := range 900 {
		request := model.next(ctx, t, stores[0])
		var fates []string
		for _, store := range stores {
			fates = append(fates, fmt.Sprint(request.run(ctx, t, store), model.show(ctx, t, store, request.name)))
		}
		for _, fate := range fates[1:] {
			require.Equal(t, fates[0], fate, "step %d: %s", step, request.what)
		}
	}
	for _, name := range model.names {
		want := historyOf(ctx, t, stores[0], name)
		require.NotEmpty(t, want)
		require.Equal(t, want, historyOf(ctx, t, stores[1], name))
		require.Equal(t, want, historyOf(ctx, t, stores[2], name))
	}
}

// A claim that was broken is told by its row while that is the latest, although its ID
// is forgotten: by the rules, and by the shortcuts.
func TestForgottenClaimThatWasBrokenIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, open func(parameters ...string) *Provider) {
		ctx, s := bounded(t), open().store
		req := claimOf("n", time.Minute)
		claim, err := s.Acquire(ctx, req)
		require.NoError(t, err)
		_, err = s.Break(ctx, abstractions.BreakRequest{Name: "n"})
		require.NoError(t, err)
		for range remembered {
			_, err = s.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: abstractions.NewID()})
			require.NoError(t, err)
		}
		for _, when := range []string{"while it runs out", "after it has"} {
			_, err = s.Acquire(ctx, req)
			require.ErrorIs(t, err, abstractions.ErrReleased, when)
			_, err = s.Renew(ctx, renewalOf(claim))
			lost := (*abstractions.LostError)(nil)
			require.ErrorAs(t, err, &lost, when)
			require.Equal(t, abstractions.LostBroken, lost.Reason, when)
			expire(ctx, t, s, "n")
		}
	})
}

// withoutShortcuts leaves everything to the rules.
type withoutShortcuts struct{ backend }

func (b withoutShortcuts) apply(ctx context.Context, op op) (outcome, error) {
	op.take, op.give = nil, nil
	return b.backend.apply(ctx, op)
}

// model makes up requests about a few names by a few claims.
type model struct {
	random *rand.Rand
	names  []string
	ids    []string
}

func newModel(random *rand.Rand) *model {
	m := &model{random: random, names: []string{"a", "B'; --"}}
	m.refresh()
	return m
}

// refresh makes new claims, some of them the present ones.
func (m *model) refresh() {
	kept := m.ids[:min(len(m.ids), 2)]
	m.ids = append([]string(nil), kept...)
	for len(m.ids) < 5 {
		m.ids = append(m.ids, abstractions.NewID())
	}
	m.random.Shuffle(len(m.ids), func(i, j int) { m.ids[i], m.ids[j] = m.ids[j], m.ids[i] })
}

type request struct {
	what, name string
	run        func(context.Context, testing.TB, *Store) string
}

// next makes up a request, every second one by whoever holds the name.
func (m *model) next(ctx context.Context, t testing.TB, s *Store) request {
	if m.random.IntN(10) == 0 {
		m.refresh()
	}
	name, id := pick(m.random, m.names), pick(m.random, m.ids)
	holder, err := s.backend.read(ctx, name)
	require.NoError(t, err)
	if holder.id != "" && m.random.IntN(2) == 0 {
		id = holder.id
	}
	ttl := pick(m.random, []time.Duration{time.Hour, time.Hour, time.Hour, 2 * time.Hour, abstractions.Infinite})
	what := pick(m.random, []string{"acquire", "acquire", "acquire", "release", "release", "renew", "renew", "renew", "renew", "break", "end", "expire", "expire"})
	r := request{what: fmt.Sprint(what, " ", name, " ", id, " ", ttl), name: name}
	switch what {
	case "acquire":
		r.run = func(ctx context.Context, _ testing.TB, s *Store) string {
			claim, err := s.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: "of " + id, TTL: ttl, Metadata: map[string]string{"id": id}})
			return fate(claim.ID, claim.TTL, err)
		}
	case "release":
		r.run = func(ctx context.Context, _ testing.TB, s *Store) string {
			released, err := s.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id})
			return fate(released.WasHeld, 0, err)
		}
	case "renew":
		r.run = func(ctx context.Context, t testing.TB, s *Store) string {
			record, err := s.Inspect(ctx, abstractions.InspectRequest{Name: name})
			require.NoError(t, err)
			claim, err := s.Renew(ctx, abstractions.RenewRequest{Name: name, ID: id, Token: record.Token, TTL: ttl})
			return fate(claim.ID, claim.TTL, err)
		}
	case "break", "end":
		r.run = func(ctx context.Context, _ testing.TB, s *Store) string {
			broken, err := s.Break(ctx, abstractions.BreakRequest{Name: name, Immediate: what == "end", Grace: time.Hour})
			return fate(broken.WasHeld, broken.Remaining.Round(time.Minute), err)
		}
	case "expire":
		r.run = func(ctx context.Context, t testing.TB, s *Store) string {
			expire(ctx, t, s, name)
			return ""
		}
	}
	return r
}

func pick[T any](random *rand.Rand, list []T) T { return list[random.IntN(len(list))] }

func fate(what any, ttl time.Duration, err error) string {
	text := fmt.Sprint(what, " ", ttl)
	var lost *abstractions.LostError
	if errors.As(err, &lost) {
		text += " lost " + string(lost.Reason)
	}
	for _, sentinel := range []error{abstractions.ErrHeld, abstractions.ErrReleased, abstractions.ErrLost, abstractions.ErrUnavailable} {
		text += fmt.Sprint(" ", errors.Is(err, sentinel))
	}
	return text
}

// show is the row, but for what differs between databases: times and tokens.
func (m *model) show(ctx context.Context, t testing.TB, s *Store, name string) string {
	r, err := s.backend.read(ctx, name)
	require.NoError(t, err)
	return fmt.Sprint(
		r.id, r.owner, r.ttl, decodeMetadata(r.metadata), r.breaking, r.ended, r.left.Round(time.Minute),
		r.token > 0, r.acquiredAt.IsZero(), r.expiresAt().IsZero(), r.unsettled,
	)
}

func historyOf(ctx context.Context, t testing.TB, s *Store, name string) (entries []string) {
	var tokens []int64
	for after := ""; ; {
		page, err := s.History(ctx, abstractions.HistoryRequest{Name: name, Limit: 7, After: after})
		require.NoError(t, err)
		for _, e := range page.Entries {
			if len(tokens) == 0 || tokens[len(tokens)-1] != e.Token {
				tokens = append(tokens, e.Token)
			}
			entries = append(entries, fmt.Sprint(e.Kind, " ", e.ID, " ", e.Owner, " ", len(tokens), " ", e.Time.IsZero()))
		}
		if after = page.Next; after == "" {
			require.IsIncreasing(t, tokens)
			return entries
		}
	}
}

// expire lets the lease of a name run out, unless it is infinite.
func expire(ctx context.Context, t testing.TB, s *Store, name string) {
	t.Helper()
	setBack(ctx, t, s, name, 3*time.Hour)
}

// setBack moves the end of a lease towards the past.
func setBack(ctx context.Context, t testing.TB, s *Store, name string, by time.Duration) {
	t.Helper()
	b := s.backend
	if wrapped, ok := b.(withoutShortcuts); ok {
		b = wrapped.backend
	}
	statement := "UPDATE {lease} SET expires_at = expires_at - $2::bigint * interval '1 microsecond' WHERE name = $1::text"
	if _, ok := b.(*sqlite); ok {
		statement = "UPDATE {lease} SET expires_us = expires_us - ?2, boot_us = boot_us - ?2 WHERE name = ?1"
	}
	execute(ctx, t, b, statement, name, by.Microseconds())
}
