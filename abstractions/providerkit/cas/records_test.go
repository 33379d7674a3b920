package cas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
)

// memoryStore is a Store in memory. Its clock shows whole seconds.
type memoryStore struct {
	mu        sync.Mutex
	items     map[string]Item
	puts      int
	gets      int
	clockless bool
	undated   bool // it reports no time of a Put
	// before and after, unless nil, run once, around the next Put.
	before, after func() error
	// lag is the number of Gets that still return the state from the time of the call to stale.
	lag int
	old map[string]Item
}

func (s *memoryStore) now() time.Time {
	if s.clockless {
		return time.Time{}
	}
	return time.Now().UTC().Truncate(time.Second)
}

func (s *memoryStore) Get(_ context.Context, key string) (Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	item := s.items[key]
	if s.lag > 0 {
		s.lag--
		item = s.old[key]
	}
	item.Now = s.now()
	return item, nil
}

// stale keeps the present state for Gets that lag.
func (s *memoryStore) stale() { s.old = maps.Clone(s.items) }

func (s *memoryStore) Put(_ context.Context, old Item, _ *providerkit.Record, data []byte) (Item, error) {
	if before := s.before; before != nil {
		s.before = nil
		if err := before(); err != nil {
			return Item{}, err
		}
	}
	s.mu.Lock()
	s.puts++
	if s.items[old.Key].Version != old.Version {
		s.mu.Unlock()
		return Item{}, fmt.Errorf("412: %w", ErrConflict)
	}
	item := Item{Key: old.Key, Data: slices.Clone(data), Version: fmt.Sprint("v", s.puts)}
	if !s.undated {
		item.Written = s.now()
	}
	s.items[old.Key] = item
	s.mu.Unlock()
	if after := s.after; after != nil {
		s.after = nil
		return Item{}, after()
	}
	return item, nil
}

func (s *memoryStore) List(_ context.Context, query ListQuery) (items []Item, next string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, item := range s.items {
		if key > query.After {
			item.Now = s.now()
			items = append(items, item)
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.Key, b.Key) })
	if len(items) > query.Limit {
		items = items[:query.Limit]
		next = items[query.Limit-1].Key
	}
	return items, next, nil
}

func (s *memoryStore) Delete(_ context.Context, item Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[item.Key].Version != item.Version {
		return ErrConflict
	}
	delete(s.items, item.Key)
	return nil
}

func newMemoryStore(resolution time.Duration) (*Records, *memoryStore) {
	s := &memoryStore{items: map[string]Item{}}
	return &Records{Store: s, Key: func(name string) string { return "k/" + name }, Expiry: &Expiry{Resolution: resolution, Skew: 2 * time.Second}}, s
}

func (s *Records) mustAcquire(t testing.TB, id string, ttl time.Duration) abstractions.Grant {
	t.Helper()
	grant, err := s.Acquire(t.Context(), acquire(id, ttl))
	require.NoError(t, err)
	return grant
}

func renewal(grant abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: grant.Name, ID: grant.ID, Token: grant.Token, TTL: grant.TTL, State: grant.State}
}

// T13, T14: after the reply to a Put was lost, a read shows whether the Put was applied.
func TestTrap_T14_AmbiguousWritesAreReadBack(t *testing.T) {
	lost := errors.New("connection reset")
	s, store := newMemoryStore(time.Second)
	store.after = func() error { return lost }
	grant := s.mustAcquire(t, "mine", time.Minute)
	store.after = func() error { return lost }
	_, err := s.Renew(t.Context(), renewal(grant))
	require.NoError(t, err)
	store.before = func() error { return lost }
	_, err = s.Renew(t.Context(), renewal(grant))
	require.ErrorIs(t, err, lost, "the renewal before, which is what is stored, is not this one")
	store.after = func() error { return lost }
	require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "mine", State: grant.State}))
	record, err := s.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.False(t, record.Held)
	require.Equal(t, grant.Token, record.Token)
}

// A client library that sends a request twice may get a conflict with its own first
// request. No verb mistakes that conflict for a write of another client.
func TestTrap_T14_WritesThatWereSentTwice(t *testing.T) {
	for _, verb := range []string{"acquire", "renew", "release", "break", "break now"} {
		t.Run(verb, func(t *testing.T) {
			s, store := newMemoryStore(time.Second)
			var grant abstractions.Grant
			if verb != "acquire" {
				grant = s.mustAcquire(t, "mine", time.Minute)
			}
			store.after = func() error { return ErrConflict }
			switch verb {
			case "acquire":
				grant = s.mustAcquire(t, "mine", time.Minute)
			case "renew":
				_, err := s.Renew(t.Context(), renewal(grant))
				require.NoError(t, err)
			case "release":
				require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "mine", State: grant.State}))
			default:
				now := verb == "break now"
				result, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: now})
				require.NoError(t, err)
				require.True(t, result.WasHeld)
				require.Equal(t, grant.Token, result.Token)
				require.Equal(t, now, result.Remaining == 0)
			}
			record, err := s.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
			require.NoError(t, err)
			require.Equal(t, verb != "release" && verb != "break now", record.Held)
			require.Equal(t, grant.Token, record.Token)
		})
	}
}

// T63: a break ends the lease that it has read, but not a lease that follows during the call.
func TestTrap_T63_BreakLeavesTheNextLeaseAlone(t *testing.T) {
	s, store := newMemoryStore(time.Second)
	first := s.mustAcquire(t, "mine", time.Minute)
	store.before = func() error {
		if err := s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "mine"}); err != nil {
			return err
		}
		s.mustAcquire(t, "theirs", time.Minute)
		return nil
	}
	result, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	require.Equal(t, abstractions.BreakResult{Token: first.Token}, result)
	record, err := s.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, abstractions.FingerprintOf("theirs"), record.Fingerprint)
	require.False(t, record.Breaking)
}

// An immediate break of a lease that is already running out frees the name, even at the second attempt.
func TestImmediateBreakAfterAnother(t *testing.T) {
	s, store := newMemoryStore(time.Second)
	s.mustAcquire(t, "mine", time.Minute)
	_, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	store.before = func() error { return s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "other"}) }
	result, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	require.True(t, result.WasHeld)
	s.mustAcquire(t, "theirs", time.Minute)
}

func TestARenewalTakesOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newMemoryStore(time.Second)
		grant := s.mustAcquire(t, "mine", time.Minute)
		gets := store.gets
		for range 3 {
			time.Sleep(30 * time.Second)
			var err error
			grant, err = s.Renew(t.Context(), renewal(grant))
			require.NoError(t, err)
		}
		require.Equal(t, gets, store.gets)
		adopted := renewal(grant)
		adopted.State = nil
		adopted.Metadata = map[string]string{"a": "b"}
		_, err := s.Renew(t.Context(), adopted)
		require.NoError(t, err)
		require.Equal(t, gets+1, store.gets, "without a state")
		_, err = s.Renew(t.Context(), renewal(grant))
		require.NoError(t, err, "the state is old: that costs a read, and no lease")
		record, err := s.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "b"}, record.Metadata, "T15: an old state brings nothing back")
		wrong := renewal(grant)
		wrong.Token++
		_, err = s.Renew(t.Context(), wrong)
		lostBecause(t, err, abstractions.LostGone)
	})
}

// A claim that has run out is lost, whatever has happened since.
func TestAClaimThatRanOut(t *testing.T) {
	for name, meanwhile := range map[string]func(*testing.T, *Records){
		"nobody": func(*testing.T, *Records) {},
		"taken":  func(t *testing.T, s *Records) { s.mustAcquire(t, "theirs", time.Hour) },
		"foreign": func(t *testing.T, s *Records) {
			_ = s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "x"})
		},
		"break": func(t *testing.T, s *Records) {
			result, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
			require.NoError(t, err)
			require.False(t, result.WasHeld)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newMemoryStore(time.Second)
				grant := s.mustAcquire(t, "mine", time.Minute)
				time.Sleep(2 * time.Minute)
				meanwhile(t, s)
				_, err := s.Renew(t.Context(), renewal(grant))
				reason := abstractions.LostExpired
				if name == "taken" {
					reason = abstractions.LostTaken
				}
				lostBecause(t, err, reason)
			})
		})
	}
}

// A write of another client, with a later service time, does not prolong a lease, either by the service's times or for a watcher
// without a clock.
func TestForeignWritesProlongNothing(t *testing.T) {
	for _, clockless := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, store := newMemoryStore(time.Second)
			store.clockless = clockless
			s.mustAcquire(t, "mine", time.Minute)
			_, err := s.Acquire(t.Context(), acquire("theirs", time.Minute)) // begins to watch
			var held *abstractions.HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, clockless, held.RetryAfter > 0)
			for i := range 6 {
				time.Sleep(10 * time.Second)
				require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: fmt.Sprint("x", i)}))
			}
			time.Sleep(5 * time.Second)
			next := s.mustAcquire(t, "theirs", time.Minute)
			if clockless {
				require.EqualValues(t, 2, next.Token)
			}
		})
	}
}

// storeOfIdleNames returns a store in which n names were used an hour ago. Every second lease
// ran out instead of being released.
func storeOfIdleNames(t *testing.T, n int) (*Records, *memoryStore) {
	s, store := newMemoryStore(time.Second)
	s.Retention = time.Hour
	for i := range n {
		req := acquire("mine", time.Minute)
		req.Name = fmt.Sprintf("n%03d", i)
		_, err := s.Acquire(t.Context(), req)
		require.NoError(t, err)
		if i%2 == 0 {
			require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: req.Name, ID: "mine"}))
		}
	}
	time.Sleep(time.Hour)
	return s, store
}

func TestSweepForgetsWhatIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := storeOfIdleNames(t, 250)
		s.mustAcquire(t, "mine", time.Hour)
		p := providerkit.New(memoryStoreDriver{s, false}, providerkit.Config{})
		forgotten, err := providerkit.Sweep(t.Context(), p, s.SweepPage)
		require.NoError(t, err)
		require.Equal(t, 125, forgotten, "the others ran out a minute later")
		time.Sleep(time.Minute + 3*time.Second)
		forgotten, err = providerkit.Sweep(t.Context(), p, s.SweepPage)
		require.NoError(t, err)
		require.Equal(t, 125, forgotten)
		require.Len(t, store.items, 1, "what is held is never forgotten")
	})
}

// T73: on its first release, a process sweeps both the names after the released name and
// the first names of the store.
func TestTrap_T73_ShortLivedProcessesSweepToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store := storeOfIdleNames(t, 300)
		time.Sleep(time.Minute + 3*time.Second)
		for _, name := range []string{"n050", "n250", "z"} {
			s, _ := newMemoryStore(time.Second)
			s.Store, s.Retention = store, time.Hour
			before := len(store.items)
			require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: name, ID: "other"}))
			require.LessOrEqual(t, len(store.items), before-40, name)
		}
	})
}

func TestRecordsOfOthersAreLeftAlone(t *testing.T) {
	for _, text := range []string{"", "{", "null", "7", `{"v":2,"name":"n"}`, `{"v":1,"name":"other"}`, `{"v":1}`, `{"v":1,"name":"n","token":9007199254740992}`} {
		s, store := newMemoryStore(time.Second)
		store.items["k/n"] = Item{Key: "k/n", Data: []byte(text), Version: "v0"}
		_, err := s.Acquire(t.Context(), acquire("mine", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp, text)
		require.Zero(t, store.puts)
		page, err := s.List(t.Context(), abstractions.ListRequest{})
		require.NoError(t, err)
		require.Empty(t, page.Records)
	}
}

func TestAContendedRecordIsGivenUp(t *testing.T) {
	s, store := newMemoryStore(time.Second)
	var again func() error
	again = func() error { store.before = again; return ErrConflict }
	store.before = again
	_, err := s.Acquire(t.Context(), acquire("mine", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
}

// T181: without pauses, one attempt on a store that returns an old version, as a cache in front of the store does, made
// dozens of requests within milliseconds, and the error blamed other clients.
func TestTrap_T181_ConflictsAreFollowedByPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for conflicts, least := range map[int]time.Duration{1: 0, 2: 0, 3: time.Millisecond, 8: 30 * time.Millisecond, maxConflicts: time.Second} {
			s, store := storeOfOneName(t)
			left := conflicts
			var again func() error
			again = func() error {
				if left--; left < 0 {
					return nil
				}
				store.before = again
				return ErrConflict
			}
			store.before = again
			began := time.Now()
			_, err := s.Acquire(t.Context(), acquire("mine", time.Minute))
			took := time.Since(began)
			require.GreaterOrEqual(t, took, least, conflicts)
			require.Less(t, took, max(1, 5*least), conflicts)
			if conflicts < maxConflicts {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, abstractions.ErrUnavailable)
			require.ErrorContains(t, err, "a cache before the store")
		}
		s, store := storeOfOneName(t) // a caller gives up during a pause
		var again func() error
		again = func() error { store.before = again; return ErrConflict }
		store.before = again
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := s.Acquire(ctx, acquire("mine", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// storeOfOneName returns Records with one free record.
func storeOfOneName(t *testing.T) (*Records, *memoryStore) {
	s, store := newMemoryStore(time.Second)
	g := s.mustAcquire(t, "before", time.Minute)
	require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State}))
	return s, store
}

func TestTheCodecKeepsAll(t *testing.T) {
	r := held()
	r.Metadata, r.Ended = map[string]string{"a": "ä"}, providerkit.Ended{{ID: "x", Broken: true, At: 7}}
	r.Breaking, r.BrokenBy, r.BreakReason, r.IdleSince = true, "anna", "stuck", noon
	d := deadline{Write: "w", Lasts: 60_000_000, Ends: noon.UnixMicro()}
	data, err := currentFormat.encode(&r, d)
	require.NoError(t, err)
	back, again, err := currentFormat.decode(data, "n")
	require.NoError(t, err)
	r.Now, r.Left = time.Time{}, 0
	require.Equal(t, r, back)
	require.Equal(t, d, again)
	require.True(t, currentFormat.same([]byte(" "+string(data)), data))
	r.Token++
	other, err := currentFormat.encode(&r, d)
	require.NoError(t, err)
	require.False(t, currentFormat.same(other, data))

	for _, ttl := range []time.Duration{time.Microsecond, time.Hour, abstractions.Infinite} {
		require.Equal(t, ttl, fromMicros(micros(ttl)))
	}
	require.EqualValues(t, 2, micros(time.Microsecond+1))
}

// Stored records already have these field names (docs/providers/cosmos.md), and records outlive the code.
func TestTheFieldsOfAStoredRecord(t *testing.T) {
	r, d, err := currentFormat.decode([]byte(`{
		"v": 1, "name": "n", "token": 5, "id": "x", "owner": "o", "ttl_us": 30000000, "metadata": {"k": "v"}, "acquired_us": 7,
		"breaking": true, "broken_by": "anna", "break_reason": "stuck", "ended": "b@2 a!@1", "idle_us": 9,
		"write": "w", "lasts_us": 3, "ends_us": 4, "host": {"wall_us": 1, "boot": "b", "boot_us": 2}
	}`), "n")
	require.NoError(t, err)
	require.Equal(t, providerkit.Record{
		Name: "n", Token: 5, ID: "x", Owner: "o", TTL: 30 * time.Second, Metadata: map[string]string{"k": "v"}, AcquiredAt: timeOf(7),
		Breaking: true, BrokenBy: "anna", BreakReason: "stuck", Ended: providerkit.Ended{{ID: "a", Broken: true, At: 1}, {ID: "b", At: 2}}, IdleSince: timeOf(9),
	}, r)
	require.Equal(t, deadline{Write: "w", Lasts: 3, Ends: 4, Host: &hostclock.Deadline{Wall: 1, Boot: "b", SinceBoot: 2}}, d)
}

// T84: the state of an earlier grant of the claim is not valid for a later grant.
func TestTrap_T84_AnOldStateBesideANewToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newMemoryStore(time.Second)
		first := s.mustAcquire(t, "mine", time.Minute)
		time.Sleep(2 * time.Minute)
		req := renewal(s.mustAcquire(t, "mine", time.Minute))
		require.Greater(t, req.Token, first.Token)
		req.State = first.State
		_, err := s.Renew(t.Context(), req)
		require.NoError(t, err)
	})
}

// A grant's state is immutable: requests may use it at the same time.
func TestTwoReleasesWithOneState_ConcurrentSafe(t *testing.T) {
	s, _ := newMemoryStore(time.Second)
	for i := range 3 {
		require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: fmt.Sprint("x", i)}))
	}
	grant := s.mustAcquire(t, "mine", time.Minute)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			_ = s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "mine", Token: grant.Token, State: grant.State})
		})
	}
	wait.Wait()
}

func TestOnlyNamesThatAreAskedForAreWatched(t *testing.T) {
	s, _ := newMemoryStore(time.Second)
	s.mustAcquire(t, "mine", time.Minute)
	_, err := s.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	require.Empty(t, s.Expiry.seen)
	_, err = s.Acquire(t.Context(), acquire("theirs", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.Len(t, s.Expiry.seen, 1)
	_, err = s.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	s.mustAcquire(t, "theirs", time.Minute)
	require.Empty(t, s.Expiry.seen)
}

// T21: a name that was deleted and acquired again within a second of the service's clock gets a greater token.
func TestTrap_T21_TokensRiseThroughADeletionWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newMemoryStore(time.Second)
		var last int64
		for i := range 10 {
			grant := s.mustAcquire(t, fmt.Sprint("id", i), time.Minute)
			require.Greater(t, grant.Token, last)
			last = grant.Token
			require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: grant.ID}))
			if i%3 != 0 { // otherwise the next token follows from the record, and the tokenClock must note that token
				clear(store.items)
			}
			if i == 4 {
				r := providerkit.Record{Name: "n", Token: last + 1000} // of another host
				data, err := currentFormat.encode(&r, deadline{})
				require.NoError(t, err)
				store.items["k/n"] = Item{Key: "k/n", Data: data, Version: "other"}
			}
		}
	})
}

// memoryStoreDriver makes a provider from Records over a service whose clock shows whole seconds.
type memoryStoreDriver struct {
	*Records
	undated bool
}

func (d memoryStoreDriver) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider: "shelf", MinTTL: 5 * time.Second, MaxTTL: 10000 * time.Hour, Granularity: time.Microsecond, Infinite: true,
		Clock: "the shelf's", Lateness: d.Expiry.Lateness(), RemainingKnown: !d.undated,
	}
}

func (d memoryStoreDriver) Ping(context.Context) error         { return nil }
func (d memoryStoreDriver) Classify(error) providerkit.Meaning { return providerkit.Meaning{} }
func (d memoryStoreDriver) Close() error                       { return nil }

// MemoryProviders makes a store with compare-and-set, and returns a provider, its Records, and a second provider over the store.
func MemoryProviders() (p *providerkit.Provider, records *Records, peer *providerkit.Provider) {
	return memoryProviders(false)
}

// UndatedProviders is MemoryProviders over a store that reports no time of a write.
func UndatedProviders() (p *providerkit.Provider, records *Records, peer *providerkit.Provider) {
	return memoryProviders(true)
}

func memoryProviders(undated bool) (p *providerkit.Provider, records *Records, peer *providerkit.Provider) {
	s, store := newMemoryStore(time.Second)
	store.undated = undated
	other, _ := newMemoryStore(time.Second)
	other.Store = store
	return providerkit.New(memoryStoreDriver{s, undated}, providerkit.Config{Timeout: time.Second}), s, providerkit.New(memoryStoreDriver{other, undated}, providerkit.Config{Timeout: time.Second})
}
