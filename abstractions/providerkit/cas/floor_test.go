package cas

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// clockAheadStore is a Store whose service's clock is ahead for a while.
type clockAheadStore struct {
	*memoryStore
	by time.Duration
}

func (a *clockAheadStore) Get(ctx context.Context, key string) (Item, error) {
	item, err := a.memoryStore.Get(ctx, key)
	item.Now = item.Now.Add(a.by)
	return item, err
}

func (a *clockAheadStore) Put(ctx context.Context, old Item, r *providerkit.Record, data []byte) (Item, error) {
	item, err := a.memoryStore.Put(ctx, old, r, data)
	if !item.Written.IsZero() {
		item.Written = item.Written.Add(a.by)
		a.items[old.Key] = item
	}
	return item, err
}

func (a *clockAheadStore) List(ctx context.Context, query ListQuery) ([]Item, string, error) {
	items, next, err := a.memoryStore.List(ctx, query)
	for i := range items {
		items[i].Now = items[i].Now.Add(a.by)
	}
	return items, next, err
}

// T127: the clock is ahead while names are used and forgotten, and is corrected later. Every later token of any name is greater
// than all forgotten tokens, even if two processes sweep at the same time.
func TestTrap_T127_AForgottenTokenOutlivesAClockThatWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, naming := t.Context(), Naming{Max: 100}
		store := &clockAheadStore{&memoryStore{items: map[string]Item{}}, 8 * time.Hour}
		open := func() *Records {
			return &Records{Store: store, Key: naming.Encode, FloorKey: naming.Floor(), Expiry: &Expiry{Resolution: time.Second}, Retention: time.Hour, ManualSweep: true}
		}
		claim := func(name string) abstractions.AcquireRequest {
			return abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), TTL: time.Minute}
		}
		users, highest := []*Records{open(), open()}, int64(0)
		for round := range 3 {
			before := highest
			for i, r := range users {
				req := claim(fmt.Sprint("n", i))
				g, err := r.Acquire(ctx, req)
				require.NoError(t, err)
				require.Greater(t, g.Token, before)
				highest = max(highest, g.Token)
				require.NoError(t, r.Release(ctx, abstractions.ReleaseRequest{Name: req.Name, ID: req.ID}))
			}
			time.Sleep(2 * time.Hour)
			if round == 1 { // another sweep raises the floor in between
				store.before = func() error { return users[1].raise(ctx, highest-1) }
			}
			n, next, err := users[round%2].SweepPage(ctx, "")
			require.NoError(t, err)
			require.Equal(t, []any{2, ""}, []any{n, next})
			_, floor, err := users[0].floor(ctx)
			require.NoError(t, err)
			require.Equal(t, highest, floor)
		}
		store.by = 0
		late := open()
		untaken := claim("untaken") // its release makes a record without a token
		require.NoError(t, late.Release(ctx, abstractions.ReleaseRequest{Name: untaken.Name, ID: abstractions.NewID()}))
		for _, req := range []abstractions.AcquireRequest{claim("n0"), claim("other"), untaken} {
			g, err := late.Acquire(ctx, req)
			require.NoError(t, err)
			require.Greater(t, g.Token, highest)
		}
		page, err := late.List(ctx, abstractions.ListRequest{})
		require.NoError(t, err)
		require.Len(t, page.Records, 3, "the floor is no lease")
	})
}

// T127: no record is deleted before the floor includes its token.
func TestTrap_T127_NothingIsForgottenWithoutItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{items: map[string]Item{}}
		r := &Records{Store: store, Key: Naming{Max: 100}.Encode, FloorKey: Naming{}.Floor(), Expiry: &Expiry{Resolution: time.Second}, Retention: time.Hour, ManualSweep: true}
		_, err := r.Acquire(t.Context(), abstractions.AcquireRequest{Name: "n", ID: "a", TTL: time.Minute})
		require.NoError(t, err)
		require.NoError(t, r.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}))
		time.Sleep(2 * time.Hour)
		store.before = func() error { return abstractions.ErrUnavailable }
		_, _, err = r.SweepPage(t.Context(), "")
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.Contains(t, store.items, "n")

		store.items[r.FloorKey] = Item{Key: r.FloorKey, Data: []byte(`{"v":2,"floor":7}`), Version: "x"}
		_, err = r.Acquire(t.Context(), abstractions.AcquireRequest{Name: "new", ID: "b", TTL: time.Minute})
		require.ErrorIs(t, err, abstractions.ErrNotSetUp, "a floor of another form")
		_, _, err = r.SweepPage(t.Context(), "")
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		require.Contains(t, store.items, "n")
	})
}

// stoppedReaderStore is a Store that calls its field while once, after the next read of key, as if the reader were stopped at
// that point.
type stoppedReaderStore struct {
	*memoryStore
	key   string
	while func()
}

func (s *stoppedReaderStore) Get(ctx context.Context, key string) (Item, error) {
	item, err := s.memoryStore.Get(ctx, key)
	if while := s.while; key == s.key && while != nil {
		s.while = nil
		while()
	}
	return item, err
}

// A process is stopped between its read and its write, while other processes use and forget its name.
func TestTrap_T285_AProcessThatWasStoppedGivesNoForgottenToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, naming := t.Context(), Naming{Max: 100}
		store := &stoppedReaderStore{memoryStore: &memoryStore{items: map[string]Item{}}, key: naming.Floor()}
		records := &Records{Store: store, Key: naming.Encode, FloorKey: naming.Floor(), Expiry: &Expiry{Resolution: time.Second}, Retention: time.Hour, ManualSweep: true}
		claim := func() abstractions.AcquireRequest {
			return abstractions.AcquireRequest{Name: "name", ID: abstractions.NewID(), TTL: time.Minute}
		}
		var forgotten int64
		store.while = func() {
			time.Sleep(10 * time.Minute)
			other := claim()
			g, err := records.Acquire(ctx, other)
			require.NoError(t, err)
			forgotten = g.Token
			require.NoError(t, records.Release(ctx, abstractions.ReleaseRequest{Name: "name", ID: other.ID}))
			time.Sleep(2 * time.Hour)
			n, _, err := records.SweepPage(ctx, "")
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		g, err := records.Acquire(ctx, claim())
		require.NoError(t, err)
		require.Greater(t, g.Token, forgotten)
	})
}
