package managertest_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// abilityHider hides all abilities of its provider except, if answers is set, that of a BatchRenewer.
type abilityHider struct {
	*leasingtest.Provider
	answers bool
}

func (c abilityHider) As(target any) bool {
	batch, ok := target.(*abstractions.BatchRenewer)
	if ok && c.answers {
		*batch = c.Provider
	}
	return ok && c.answers
}

func TestTrap_T64_WrapperAnswersForItself(t *testing.T) {
	p := leasingtest.NewProvider()
	_, ok := abstractions.As[abstractions.Lister](p)
	require.True(t, ok, "a provider without As answers by its methods")
	_, ok = abstractions.As[abstractions.Lister](abilityHider{p, true})
	require.False(t, ok, "what a wrapper does not answer is hidden, though its methods would fit")
	_, ok = abstractions.As[abstractions.BatchRenewer](abilityHider{p, false})
	require.False(t, ok)
	batch, ok := abstractions.As[abstractions.BatchRenewer](abilityHider{p, true})
	require.True(t, ok)
	require.Equal(t, p, batch)
}

func TestList(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		for i := range 250 {
			l, err := m.Acquire(t.Context(), fmt.Sprintf("a/%03d", i))
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Release(t.Context())) }()
		}
		seen := map[string]bool{}
		for record, err := range m.List(t.Context(), leasing.ListOptions{Prefix: "a/", HeldOnly: true}) {
			require.NoError(t, err)
			require.True(t, record.Held)
			seen[record.Name] = true
		}
		require.Len(t, seen, 250)
		require.GreaterOrEqual(t, p.Count(leasingtest.List), 3, "page by page")
		before := p.Count(leasingtest.List)
		for range m.List(t.Context(), leasing.ListOptions{Prefix: "a/"}) {
			break
		}
		require.Equal(t, before+1, p.Count(leasingtest.List))

		p.Use(leasingtest.Fail(leasingtest.List, 1, errNetwork))
		n := 0
		for _, err := range m.List(t.Context(), leasing.ListOptions{}) {
			require.ErrorIs(t, err, leasing.ErrUnavailable)
			n++
		}
		require.Equal(t, 1, n)
		plain := leasingtest.NewManagerOn(t, noAbilities{p}, leasing.Options{})
		for _, err := range plain.List(t.Context(), leasing.ListOptions{}) {
			require.ErrorIs(t, err, leasing.ErrUnsupported)
		}
		require.Equal(t, "memory", plain.Capabilities().Provider)
	})
}

// malformedBatches replaces the results of batches with the results of answer.
type malformedBatches struct {
	*leasingtest.Provider
	answer func(results []abstractions.RenewResult) []abstractions.RenewResult
}

func (s malformedBatches) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	results, err := s.Provider.RenewBatch(ctx, reqs)
	return s.answer(results), err
}

func TestTrap_T66_MissingItemOfABatchIsNeitherSuccessNorLoss(t *testing.T) {
	for what, answer := range map[string]func([]abstractions.RenewResult) []abstractions.RenewResult{
		"cut short": func(r []abstractions.RenewResult) []abstractions.RenewResult { return r[:len(r)/2] },
		"empty":     func(r []abstractions.RenewResult) []abstractions.RenewResult { clear(r); return r },
		"nil":       func(r []abstractions.RenewResult) []abstractions.RenewResult { return nil },
		"swapped":   func(r []abstractions.RenewResult) []abstractions.RenewResult { r[0], r[1] = r[1], r[0]; return r },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			m := leasingtest.NewManagerOn(t, malformedBatches{p, answer}, leasing.Options{})
			var events journal
			defer m.Subscribe(events.observe)()
			var leases []*leasing.Lease
			for i := range 32 {
				l, err := m.With(leasing.AcquireOptions{RenewCadence: 10 * time.Second}).Acquire(t.Context(), fmt.Sprintf("a/b/%d", i))
				require.NoError(t, err)
				leases = append(leases, l)
			}
			time.Sleep(10 * time.Minute)
			require.NotEmpty(t, events.ofKind(leasing.EventRenewalFailed), what)
			for _, l := range leases {
				require.NoError(t, l.Err(), "%s: retried in smaller requests, then alone", what)
				require.NoError(t, l.Release(t.Context()))
			}
		})
	}
}

func TestWaiters(t *testing.T) {
	virtual(t, leasing.Options{Owner: "holder"}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		ctx, cancel := context.WithCancel(t.Context())
		held := acquire(t, m, nil)
		var all sync.WaitGroup
		for _, owner := range []string{"first", "second"} {
			other := leasingtest.NewManagerOn(t, p, leasing.Options{Owner: owner})
			for range 3 { // three waiters, of which the manager lists only the first
				all.Go(func() {
					_, err := other.Acquire(ctx, name)
					require.ErrorIs(t, err, context.Canceled)
				})
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		waiters, err := m.Waiters(t.Context(), name)
		require.NoError(t, err)
		require.Len(t, waiters, 2)
		require.Equal(t, []string{"first", "second"}, []string{waiters[0].Owner, waiters[1].Owner})
		require.Equal(t, time.Second, waiters[1].Since.Sub(waiters[0].Since))
		require.Equal(t, time.Second, waiters[1].Now.Sub(waiters[1].Since))
		require.NotEqual(t, waiters[0].Fingerprint, waiters[1].Fingerprint)
		cancel()
		all.Wait()
		synctest.Wait()
		waiters, err = m.Waiters(t.Context(), name)
		require.NoError(t, err)
		require.Empty(t, waiters)
		require.NoError(t, held.Release(t.Context()))

		_, err = m.Waiters(t.Context(), "")
		require.ErrorIs(t, err, leasing.ErrInvalid)
		hidden := leasingtest.NewManagerOn(t, abilityHider{p, false}, leasing.Options{})
		_, err = hidden.Waiters(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrUnsupported)
		require.NoError(t, m.Close(t.Context()))
		_, err = m.Waiters(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrClosed)
	})
}

// historyPages is a provider with a history of five changes, in pages of two.
type historyPages struct{ *leasingtest.Provider }

func (historyPages) History(_ context.Context, req abstractions.HistoryRequest) (page abstractions.HistoryResult, err error) {
	from := 0
	if req.After != "" {
		if from, err = strconv.Atoi(req.After); err != nil {
			return page, err
		}
	}
	for i := from; i < min(from+2, 5); i++ {
		token := int64(i + 1)
		if req.NewestFirst {
			token = int64(5 - i)
		}
		page.Entries = append(page.Entries, abstractions.HistoryEntry{Token: token})
	}
	switch {
	case req.Name == "ends badly" && from > 0:
		return page, errNetwork
	case from+2 < 5:
		page.Next = strconv.Itoa(from + 2)
	}
	return page, nil
}

func TestHistoryReadsPageByPage(t *testing.T) {
	m, err := leasing.NewManager(historyPages{leasingtest.NewProvider()}, leasing.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(context.WithoutCancel(t.Context()))) })
	read := func(name string, o leasing.HistoryOptions, most int) (tokens []int64, err error) {
		for entry, err := range m.History(t.Context(), name, o) {
			if err != nil {
				return tokens, err
			}
			if tokens = append(tokens, entry.Token); len(tokens) == most {
				break
			}
		}
		return tokens, nil
	}
	all, err := read("name", leasing.HistoryOptions{}, 9)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2, 3, 4, 5}, all)
	latest, err := read("name", leasing.HistoryOptions{NewestFirst: true}, 3)
	require.NoError(t, err)
	require.Equal(t, []int64{5, 4, 3}, latest)
	begun, err := read("ends badly", leasing.HistoryOptions{}, 9)
	require.ErrorIs(t, err, leasing.ErrUnavailable)
	require.Equal(t, []int64{1, 2}, begun)
	_, err = read("", leasing.HistoryOptions{}, 9)
	require.ErrorIs(t, err, leasing.ErrInvalid)
	plain, err := leasing.NewManager(leasingtest.NewProvider(), leasing.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plain.Close(context.WithoutCancel(t.Context()))) })
	for _, err := range plain.History(t.Context(), "name", leasing.HistoryOptions{}) {
		require.ErrorIs(t, err, leasing.ErrUnsupported)
	}
}

// optionsRecorder is a wrapper that records the options of each acquire.
type optionsRecorder struct {
	abstractions.Manager
	seen []leasing.AcquireOptions
}

func (p *optionsRecorder) TryAcquire(ctx context.Context, name string, options leasing.AcquireOptions) (abstractions.Lease, error) {
	p.seen = append(p.seen, options)
	return p.Manager.TryAcquire(ctx, name, options)
}

func TestAWrapperKeepsTheOptionsOfWith(t *testing.T) {
	virtual(t, leasing.Options{TTL: time.Minute}, func(t *testing.T, m *leasing.Manager, _ *leasingtest.Provider) {
		wrapper := &optionsRecorder{Manager: m.With(leasing.AcquireOptions{TTL: 10 * time.Second, Metadata: map[string]string{"by": "base"}}).Interface()}
		wrapped := leasing.ManagerOf(wrapper)
		first, err := wrapped.TryAcquire(t.Context(), "first")
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, first.TTL())
		second, err := wrapped.With(leasing.AcquireOptions{TTL: 20 * time.Second}).TryAcquire(t.Context(), "second")
		require.NoError(t, err)
		require.Equal(t, 20*time.Second, second.TTL())
		require.Equal(t, map[string]string{"by": "base"}, second.Metadata())
		require.Equal(t, []leasing.AcquireOptions{{}, {TTL: 20 * time.Second}}, wrapper.seen)
		require.NoError(t, first.Release(t.Context()))
		require.NoError(t, second.Release(t.Context()))
	})
}
