package memlease

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

func TestListRefusesAPositionItDidNotGive(t *testing.T) {
	p := New(Options{})
	for _, after := range []string{"x", "64:", "-1:a", "1"} {
		_, err := p.List(t.Context(), abstractions.ListRequest{After: after})
		require.ErrorIs(t, err, abstractions.ErrInvalid, after)
	}
}

func TestListLeavesOutNamesThatWereNeverHeld(t *testing.T) {
	p := New(Options{})
	p.mustRelease(t, acquireRequest("a", time.Second)) // only remembers the ID
	page, err := p.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	require.Empty(t, page)
}

func TestHistoryIsBounded(t *testing.T) {
	p := New(Options{History: 3})
	for range 5 {
		req := acquireRequest("a", time.Minute)
		p.mustAcquire(t, req)
		p.mustRelease(t, req)
	}
	page, err := p.History(t.Context(), abstractions.HistoryRequest{Name: "a", Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.Entries, 2)
	require.Equal(t, abstractions.HistoryReleased, page.Entries[0].Kind)
	p.mustAcquire(t, acquireRequest("a", time.Minute)) // drops the oldest entry between two pages
	rest, err := p.History(t.Context(), abstractions.HistoryRequest{Name: "a", After: page.Next})
	require.NoError(t, err)
	require.Len(t, rest.Entries, 2, "the page goes on where the other ended")
	require.Empty(t, rest.Next)
	require.Greater(t, rest.Entries[1].Token, rest.Entries[0].Token)

	newest, err := p.History(t.Context(), abstractions.HistoryRequest{Name: "a", NewestFirst: true, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, rest.Entries[1:], newest.Entries)
	older, err := p.History(t.Context(), abstractions.HistoryRequest{Name: "a", NewestFirst: true, After: newest.Next})
	require.NoError(t, err)
	require.Equal(t, []abstractions.HistoryEntry{rest.Entries[0], page.Entries[1]}, older.Entries)
	require.Empty(t, older.Next)

	_, err = p.History(t.Context(), abstractions.HistoryRequest{Name: "a", After: "x"})
	require.ErrorIs(t, err, abstractions.ErrInvalid)
	_, err = p.History(t.Context(), abstractions.HistoryRequest{})
	require.ErrorIs(t, err, abstractions.ErrInvalid)
}

func TestHistoryOfRenewalsByOption(t *testing.T) {
	for _, renewals := range []bool{false, true} {
		p := New(Options{History: 10, HistoryRenewals: renewals})
		req := acquireRequest("a", time.Minute)
		grant := p.mustAcquire(t, req)
		_, err := p.Renew(t.Context(), abstractions.RenewRequest{Name: "a", ID: req.ID, Token: grant.Token, TTL: time.Minute})
		require.NoError(t, err)
		page, err := p.History(t.Context(), abstractions.HistoryRequest{Name: "a"})
		require.NoError(t, err)
		require.Equal(t, renewals, len(page.Entries) == 2, fmt.Sprint(page.Entries))
	}
}

func TestNoHistoryUnlessAskedFor(t *testing.T) {
	p := New(Options{})
	_, ok := abstractions.As[abstractions.HistoryReader](p)
	require.False(t, ok)
	_, err := p.History(t.Context(), abstractions.HistoryRequest{Name: "a"})
	require.ErrorIs(t, err, abstractions.ErrUnsupported)
}
