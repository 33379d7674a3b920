package torture

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos/torture"
	"github.com/distributedleasing/leasing/history"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

func TestHistoryAgreesWithEvents_sqlite(t *testing.T) {
	t.Parallel()
	options := sqlitelease.Options{URL: "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db")), Create: true, History: true}
	compareHistory(t, func(ctx context.Context) (leasing.Provider, error) { return sqlitelease.Open(ctx, options) })
}

func TestHistoryAgreesWithEvents_postgres(t *testing.T) {
	t.Parallel()
	options, _ := onPostgres(t)
	options.History = true
	compareHistory(t, func(ctx context.Context) (leasing.Provider, error) { return postgreslease.Open(ctx, options) })
}

// compareHistory tortures a database that keeps a history, and compares the history, lease by
// lease, with the events in the logs of the workers' managers:
//
//   - each Acquired event has an entry with the same ID, and each token has one such entry;
//   - each Released event of a release that reached the backend, and each Lost event, has an entry that the lease
//     was released, expired or broken; a Lost event that a break has caused has an entry that the lease was broken;
//   - each of these entries has an Acquired event, and a Released or Lost event.
//
// Claims whose manager never received the grant, because a reply was lost or no caller waited for it any more, are exempt: they
// have no event, and their leases have ended. The history has the end of an expired lease only after the next change to its name.
// Breaks come from the plan, and no manager reports them: see TestHistoryAgreesWithBreaks.
func compareHistory(t *testing.T, open func(context.Context) (leasing.Provider, error)) {
	reported := &events{leases: map[claim]*lease{}}
	report, err := torture.Run(t.Context(), torture.Options{ // TestTorture_sqlite and TestTorture_postgres check the violations
		Open: open, Plan: faultyPlan(), For: length, Workers: 6, Names: 3, TTL: time.Second, Intensity: 4, Manager: leasing.Options{Logger: slog.New(reported)},
	})
	require.NoError(t, err)
	t.Logf("\n%s", report)

	p, err := open(t.Context())
	require.NoError(t, err)
	defer p.Close()
	unreported, broken := 0, 0
	for name, entries := range histories(t, p) {
		for token, l := range byToken(entries) {
			require.Len(t, l.kinds(abstractions.HistoryAcquired), 1, "entries of %s, token %d: %v", name, token, l)
			require.NotEmpty(t, l.ends(), "%s, token %d: %v", name, token, l)
			if len(l.kinds(abstractions.HistoryBroken)) > 0 {
				broken++
			}
			known := reported.leases[claim{name, token}]
			if known == nil {
				unreported++
				continue
			}
			for _, e := range l {
				require.Equal(t, known.claim, e.Fingerprint.String(), "%s, token %d: %v", name, token, l)
			}
			require.Len(t, known.kinds, 2, "events of %s, token %d", name, token)
			require.Equal(t, leasing.EventAcquired, known.kinds[0])
			if known.reason == leasing.LostBroken {
				require.NotEmpty(t, l.kinds(abstractions.HistoryBroken), "%s, token %d: %v", name, token, l)
			}
			if len(l.kinds(abstractions.HistoryReleased)) == 1 { // or cleaned up, after it was lost
				require.Contains(t, []leasing.EventKind{leasing.EventReleased, leasing.EventLost}, known.kinds[1])
			}
			known.found = true
		}
	}
	for claim, known := range reported.leases {
		require.True(t, known.found, "%v is not in the history: %v", claim, known)
	}
	t.Logf("%d leases agree; %d leases were broken; of %d claims no manager learned that they were granted", len(reported.leases), broken, unreported)
	require.NotEmpty(t, reported.leases)
	require.Less(t, unreported, len(reported.leases)/2)
}

// claim identifies a lease among all others.
type claim struct {
	name  string
	token int64
}

// lease has the facts of a lease from its events.
type lease struct {
	claim  string // its fingerprint
	kinds  []leasing.EventKind
	reason leasing.LostReason
	found  bool
}

// events has the events of the workers' managers. It is the handler of their log, which gets each
// event once, in order for each lease.
type events struct {
	mu     sync.Mutex
	leases map[claim]*lease
}

func (e *events) Enabled(context.Context, slog.Level) bool { return true }
func (e *events) WithAttrs([]slog.Attr) slog.Handler       { return e }
func (e *events) WithGroup(string) slog.Handler            { return e }

func (e *events) Handle(_ context.Context, r slog.Record) error {
	kind := leasing.EventKind(strings.TrimPrefix(r.Message, "leasing: lease "))
	if kind != leasing.EventAcquired && kind != leasing.EventReleased && kind != leasing.EventLost {
		return nil
	}
	attrs := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		attrs[a.Key] = a.Value
		return true
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	which := claim{attrs["name"].String(), attrs["token"].Int64()}
	l := e.leases[which]
	if l == nil {
		l = &lease{claim: attrs["fingerprint"].String()}
		e.leases[which] = l
	}
	l.kinds = append(l.kinds, kind)
	if kind == leasing.EventLost {
		l.reason = leasing.LostReason(attrs["reason"].String())
	}
	return nil
}

// entries are the history of a name, or of one of its tokens.
type entries []abstractions.HistoryEntry

func (e entries) kinds(kinds ...abstractions.HistoryKind) entries {
	return slices.DeleteFunc(slices.Clone(e), func(one abstractions.HistoryEntry) bool { return !slices.Contains(kinds, one.Kind) })
}

func (e entries) ends() entries {
	return e.kinds(abstractions.HistoryReleased, abstractions.HistoryExpired, abstractions.HistoryBroken)
}

func byToken(all entries) map[int64]entries {
	tokens := map[int64]entries{}
	for _, e := range all {
		tokens[e.Token] = append(tokens[e.Token], e)
	}
	return tokens
}

// histories returns the histories of all names, after one more change to each.
func histories(t *testing.T, p leasing.Provider) map[string]entries {
	lister, _ := abstractions.As[abstractions.Lister](p)
	page, err := lister.List(t.Context(), abstractions.ListRequest{Limit: 1000})
	require.NoError(t, err)
	require.Empty(t, page.Next)
	reader, _ := abstractions.As[abstractions.HistoryReader](p)
	all := map[string]entries{}
	for _, r := range page.Records {
		var grant abstractions.Grant
		servertest.Eventually(t, "the name is free", func(ctx context.Context) (err error) {
			grant, err = p.Acquire(ctx, abstractions.AcquireRequest{Name: r.Name, ID: abstractions.NewID(), Owner: "reader", TTL: time.Minute})
			return err
		})
		req := abstractions.HistoryRequest{Name: r.Name, Limit: 1000}
		for more := true; more; more = req.After != "" {
			page, err := reader.History(t.Context(), req)
			require.NoError(t, err)
			all[r.Name] = append(all[r.Name], page.Entries...)
			req.After = page.Next
		}
		all[r.Name] = slices.DeleteFunc(all[r.Name], func(e abstractions.HistoryEntry) bool { return e.Token == grant.Token })
	}
	return all
}

// Without faults, events and history agree, also about breaks, whether a provider keeps the history or package
// history writes the entries. If a provider keeps the history, two things differ: while a broken lease runs out, another break
// has no entry; and a release that comes too late has an entry that the lease has expired.
func TestHistoryAgreesWithBreaks_sqlite(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	options := sqlitelease.Options{URL: "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db")), Create: true, History: true}
	p, err := sqlitelease.Open(t.Context(), options)
	require.NoError(t, err)
	defer p.Close()
	compareBreaks(t, p)
}

func TestHistoryAgreesWithBreaks_postgres(t *testing.T) {
	t.Parallel()
	options, _ := onPostgres(t)
	options.History = true
	p, err := postgreslease.Open(t.Context(), options)
	require.NoError(t, err)
	defer p.Close()
	compareBreaks(t, p)
}

func compareBreaks(t *testing.T, p leasing.Provider) {
	want := map[claim]entries{}
	for _, e := range competeForNames(t, p, func(leasing.Event) {}) {
		which := claim{e.Name, e.Token}
		want[which] = append(want[which], e.HistoryEntry)
	}
	found := 0
	for name, all := range histories(t, p) {
		for token, got := range byToken(all) {
			reported, known := want[claim{name, token}]
			if !known { // on a slow machine, the trust had ended before the grant came
				require.NotEmpty(t, got.ends(), "%s, token %d: %v", name, token, got)
				continue
			}
			found++
			require.Len(t, reported.kinds(abstractions.HistoryAcquired), 1, "%s, token %d", name, token)
			require.Len(t, got.kinds(abstractions.HistoryAcquired), 1, "%s, token %d", name, token)
			breaks, broken := reported.kinds(abstractions.HistoryBroken), got.kinds(abstractions.HistoryBroken)
			require.Equal(t, len(breaks) > 0, len(broken) > 0, "%s, token %d: events %v, entries %v", name, token, reported, got)
			require.LessOrEqual(t, len(broken), len(breaks), "%s, token %d: events %v, entries %v", name, token, reported, got)
			for _, e := range broken {
				require.Equal(t, "ada: in the way", e.Actor+": "+e.Reason)
			}
			if len(broken) > 0 {
				continue // the break has ended the lease, whatever its holder did
			}
			released := len(reported.kinds(abstractions.HistoryReleased)) == 1
			require.NotEqual(t, released, len(reported.kinds(abstractions.HistoryLost)) == 1, "%s, token %d: %v", name, token, reported)
			if len(got.kinds(abstractions.HistoryReleased)) == 0 {
				require.Len(t, got.kinds(abstractions.HistoryExpired), 1, "%s, token %d: %v", name, token, got)
			} else {
				require.True(t, released, "%s, token %d: events %v, entries %v", name, token, reported, got)
			}
		}
	}
	require.Len(t, want, found, "leases with events that are in the history")
	require.Positive(t, found)
}

func TestHistoryOfOthersAgreesWithEvents_redis(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	url := servertest.Require(t, "LEASING_TEST_REDIS")
	table, err := sqlitelease.Open(t.Context(), sqlitelease.Options{URL: "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "audit.db")), Create: true, History: true})
	require.NoError(t, err)
	defer table.Close()
	recorder, err := history.New(table, history.Options{})
	require.NoError(t, err)
	p, err := redislease.Open(t.Context(), redislease.Options{URL: url, Prefix: unique()})
	require.NoError(t, err)
	defer p.Close()
	want := map[string]entries{}
	for _, e := range competeForNames(t, p, recorder.Observe) {
		want[e.Name] = append(want[e.Name], e.HistoryEntry)
	}
	require.NoError(t, recorder.Close(t.Context()))
	require.Zero(t, recorder.Dropped())
	reader, _ := abstractions.As[abstractions.HistoryReader](table)
	for name, reported := range want {
		page, err := reader.History(t.Context(), abstractions.HistoryRequest{Name: name, Limit: 1000})
		require.NoError(t, err)
		require.Empty(t, page.Next)
		require.ElementsMatch(t, reported, page.Entries, name)
	}
}

// competeForNames lets workers compete for names. Some workers are late, and the leases of some are broken.
// It returns the events as entries. No event is dropped or merged, since no worker renews.
func competeForNames(t *testing.T, p leasing.Provider, observer leasing.Observer) (reported []abstractions.NamedEntry) {
	var mu sync.Mutex
	kinds := map[leasing.EventKind]abstractions.HistoryKind{
		leasing.EventAcquired: abstractions.HistoryAcquired, leasing.EventReleased: abstractions.HistoryReleased,
		leasing.EventLost: abstractions.HistoryLost, leasing.EventBroken: abstractions.HistoryBroken,
	}
	observe := func(e leasing.Event) {
		observer(e)
		kind, is := kinds[e.Kind]
		if !is {
			return
		}
		entry := abstractions.HistoryEntry{Time: e.Time.UTC().Truncate(time.Microsecond), Kind: kind, Fingerprint: e.Fingerprint, Owner: e.Owner, Token: e.Token, Actor: e.BrokenBy, Reason: e.BreakReason}
		if e.Kind == leasing.EventLost {
			if entry.Reason = string(e.Reason); e.BreakReason != "" {
				entry.Reason += ": " + e.BreakReason
			}
		}
		mu.Lock()
		defer mu.Unlock()
		reported = append(reported, abstractions.NamedEntry{Name: e.Name, HistoryEntry: entry})
	}
	manage := func(owner string) *leasing.Manager {
		m, err := leasing.NewManager(p, leasing.Options{Owner: owner, TTL: 500 * time.Millisecond})
		require.NoError(t, err)
		m.Subscribe(observe)
		return m
	}
	quarreling, stop := context.WithTimeout(t.Context(), length/2)
	defer stop()
	ctx := t.Context() // no request is cut short
	var workers sync.WaitGroup
	var managers []*leasing.Manager
	for range 4 {
		m := manage("worker")
		managers = append(managers, m)
		workers.Go(func() {
			for n := 0; quarreling.Err() == nil; n++ {
				l, err := m.With(leasing.AcquireOptions{NoAutoRenew: true}).Acquire(ctx, []string{"a", "b", "c"}[n%3])
				switch {
				case err != nil:
				case n%4 == 0:
					<-l.Done() // it runs out, or is broken
				default:
					wait(ctx, time.Duration(n%7)*10*time.Millisecond)
					_ = l.Release(ctx)
				}
			}
		})
	}
	operator := manage("ada")
	managers = append(managers, operator)
	for n := 0; wait(quarreling, 50*time.Millisecond); n++ {
		records, err := leasing.HeldBy(ctx, operator, "worker", "")
		if err == nil {
			_, _ = leasing.ForceRelease(ctx, operator, records, leasing.BreakOptions{Immediate: n%2 == 0, Reason: "in the way"})
		}
	}
	workers.Wait()
	for _, m := range managers {
		require.NoError(t, m.Close(ctx))
	}
	return reported
}
