package cas

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// leaseStore is a memoryStore whose service has a lease for each item.
type leaseStore struct {
	*memoryStore
	taken  sync.Mutex // so that a request sees an item and its lease at the same moment
	leases map[string]nativeLease
	// fail, unless nil, is called before a lease is made to follow its record.
	fail func() error
}

type nativeLease struct {
	id     string
	ends   time.Time // zero: never
	broken bool      // and running out
}

func (n nativeLease) left() time.Duration {
	switch {
	case n.id == "":
		return 0
	case n.ends.IsZero():
		return abstractions.Infinite
	}
	return time.Until(n.ends)
}

func (s *leaseStore) Get(ctx context.Context, key string) (Item, error) {
	s.taken.Lock()
	defer s.taken.Unlock()
	item, err := s.memoryStore.Get(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	item.State = s.leases[key]
	return item, err
}

func (s *leaseStore) Put(ctx context.Context, old Item, r *providerkit.Record, data []byte) (Item, error) {
	s.taken.Lock()
	defer s.taken.Unlock()
	s.mu.Lock()
	n := s.leases[old.Key]
	s.mu.Unlock()
	if n.left() > 0 && n.id != old.State.(nativeLease).id {
		return old, ErrConflict
	}
	item, err := s.memoryStore.Put(ctx, old, r, data)
	item.State = old.State
	return item, err
}

func (s *leaseStore) List(ctx context.Context, query ListQuery) (items []Item, next string, err error) {
	s.taken.Lock()
	defer s.taken.Unlock()
	items, next, err = s.memoryStore.List(ctx, query)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range items {
		items[i].State = s.leases[items[i].Key]
	}
	return items, next, err
}

func (s *leaseStore) Complete(item Item, r *providerkit.Record) (behind bool) {
	n := item.State.(nativeLease)
	left := n.left()
	behind = left > 0 && (r.ID == "" || r.ID != n.id && r.Left > 0 || r.Breaking && !n.broken)
	switch {
	case left > 0 && r.ID == n.id:
		r.Left = min(r.Left, left)
	case left > 0:
		r.Left, r.Unconfirmed = abstractions.Infinite, true
	default:
		r.Left = min(left, item.Written.Sub(item.Now))
	}
	return behind
}

func (s *leaseStore) Reconcile(_ context.Context, item Item, r *providerkit.Record) (Item, error) {
	s.taken.Lock()
	defer s.taken.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return item, err
		}
	}
	n := s.leases[item.Key]
	if s.items[item.Key].Version != item.Version {
		return item, ErrConflict
	}
	switch {
	case r.ID == "":
		n = nativeLease{}
	case r.Breaking:
		if n.broken = true; n.ends.IsZero() {
			n.ends = time.Now().Add(r.Left)
		}
	case n.left() > 0 && n.id != r.ID:
		return item, &abstractions.HeldError{Holder: abstractions.Record{Held: true, Unconfirmed: true}}
	default:
		if n = (nativeLease{id: r.ID}); r.TTL != abstractions.Infinite {
			n.ends = time.Now().Add(r.TTL)
		}
	}
	s.leases[item.Key] = n
	item.State = n
	return item, nil
}

func newLeaseStore() (*Records, *leaseStore) {
	s, store := newMemoryStore(time.Second)
	r := &leaseStore{memoryStore: store, leases: map[string]nativeLease{}}
	s.Store, s.Leases, s.Expiry = r, r, nil
	return s, r
}

type leaseStoreDriver struct{ *Records }

func (leaseStoreDriver) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider: "rack", MinTTL: 5 * time.Second, MaxTTL: 10000 * time.Hour, Granularity: time.Microsecond, Infinite: true,
		Clock: "the rack's", Lateness: abstractions.Lateness{Fixed: time.Second}, RemainingKnown: true,
	}
}
func (leaseStoreDriver) Classify(error) providerkit.Meaning { return providerkit.Meaning{} }
func (leaseStoreDriver) Close() error                       { return nil }

// LeaseProviders makes a store whose service has leases of its own, and returns a provider, its Records, and a second provider
// over the store.
func LeaseProviders() (p *providerkit.Provider, records *Records, peer *providerkit.Provider) {
	s, store := newLeaseStore()
	other, _ := newLeaseStore()
	other.Store, other.Leases = store, store
	return providerkit.New(leaseStoreDriver{s}, providerkit.Config{Timeout: time.Second}), s, providerkit.New(leaseStoreDriver{other}, providerkit.Config{Timeout: time.Second})
}

// A renewal that only moves the end of the lease does not write the record.
func TestALeaseOfTheServicesIsRenewedWithoutAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newLeaseStore()
		grant := s.mustAcquire(t, "mine", time.Minute)
		puts, gets := store.puts, store.gets
		for range 3 {
			time.Sleep(30 * time.Second)
			var err error
			grant, err = s.Renew(t.Context(), renewal(grant))
			require.NoError(t, err)
			require.Equal(t, time.Minute, store.leases["k/n"].left())
		}
		require.Equal(t, []int{puts, gets}, []int{store.puts, store.gets})
	})
}

// T16: a process dies after a write and before the lease follows. The next call makes
// the lease follow, and the call that failed leaves its outcome unknown.
func TestTrap_T16_TheNextCallFinishes(t *testing.T) {
	reset := abstractions.ErrThrottled
	for what, end := range map[string]func(s *Records, g abstractions.Grant) error{
		"release": func(s *Records, g abstractions.Grant) error {
			return s.Release(t.Context(), abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, State: g.State})
		},
		"break": func(s *Records, _ abstractions.Grant) error {
			_, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
			return err
		},
		"break at once": func(s *Records, _ abstractions.Grant) error {
			_, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, store := newLeaseStore()
			grant := s.mustAcquire(t, "mine", abstractions.Infinite)
			store.fail = func() error { return reset }
			err := end(s, grant)
			require.ErrorIs(t, err, abstractions.ErrUnavailable, what)
			require.False(t, abstractions.NotApplied(err), what)
			store.fail = nil
			require.Equal(t, abstractions.Infinite, store.leases["k/n"].left(), what)
			_, err = s.Acquire(t.Context(), acquire("other", time.Minute))
			if what == "break" { // the broken lease runs out
				require.ErrorIs(t, err, abstractions.ErrHeld)
				time.Sleep(time.Second)
				_, err = s.Acquire(t.Context(), acquire("other", time.Minute))
			}
			require.NoError(t, err, what)
			_, err = s.Acquire(t.Context(), acquire("mine", time.Minute))
			require.True(t, errors.Is(err, abstractions.ErrReleased), what)
		})
	}
}

// A release with an ID that is not the holder's leaves the holder's lease unchanged.
func TestAReleaseBesideALeaseDoesNotProlongIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newLeaseStore()
		s.mustAcquire(t, "mine", time.Minute)
		time.Sleep(30 * time.Second)
		require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "another"}))
		require.Equal(t, 30*time.Second, store.leases["k/n"].left())
	})
}

// If a call finds that a lease has not followed its record, and another call makes the lease follow first, the call
// reads the lease a second time before it decides.
func TestALeaseThatOthersHaveFollowIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newLeaseStore()
		grant := s.mustAcquire(t, "mine", time.Minute)
		store.fail = func() error { return abstractions.ErrThrottled }
		require.ErrorIs(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "mine", Token: grant.Token, State: grant.State}), abstractions.ErrUnavailable)
		store.fail = func() error { store.fail = nil; return ErrConflict }
		result, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
		require.NoError(t, err)
		require.False(t, result.WasHeld)
	})
}
