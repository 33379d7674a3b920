package node

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// openSingle returns a topology over a client, and closes the topology when the test ends.
func openSingle(t *testing.T, client redis.UniversalClient) *Single {
	t.Helper()
	s := NewSingle(client, true, script.Naming{Prefix: "leasing"})
	t.Cleanup(s.Close)
	return s
}

// hold acquires names.
func hold(t *testing.T, s *Single, names ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, name := range names {
		_, err := s.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "o", TTL: time.Minute})
		require.NoError(t, err)
	}
}

func TestListRefusesAStrangeAfter(t *testing.T) {
	t.Parallel()
	p := openSingle(t, redistest.Start(t, redistest.Options{}).Client(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, after := range []string{"x", "0", "eyJzIjo5fQ", Position{Server: -1}.text(), Position{Server: 2}.text(), Position{Which: "other"}.text(), strings.Repeat("x", 5000)} {
		_, err := p.List(ctx, abstractions.ListRequest{After: after})
		require.ErrorIs(t, err, abstractions.ErrInvalid, after)
		require.ErrorContains(t, err, "After")
		require.Less(t, len(err.Error()), 300)
	}
	hold(t, p, "a", "b")
	page, err := p.List(ctx, abstractions.ListRequest{Prefix: "a", After: Position{Server: 1, Names: []string{"b", "a"}}.text()})
	require.NoError(t, err)
	require.Len(t, page.Records, 1, "another prefix than the page before had")
}

// A page continues only if the masters are those of the previous page.
func TestListOfAClusterGoesByItsMasters(t *testing.T) {
	t.Parallel()
	p := openSingle(t, redistest.StartCluster(t, 3).Client(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var which string
	for range 30 {
		masters, now, err := p.masters(ctx)
		require.NoError(t, err)
		require.Len(t, masters, 3)
		require.True(t, which == "" || which == now, "the order stays the same")
		which = now
	}
	hold(t, p, "a", "b", "c", "d", "e", "f")
	page, err := p.List(ctx, abstractions.ListRequest{Limit: 1})
	require.NoError(t, err)
	at, err := (&Listing{Req: abstractions.ListRequest{After: page.Next}, Servers: 3, Which: which}).begin()
	require.NoError(t, err)
	at.Which = "before"
	_, err = p.List(ctx, abstractions.ListRequest{Limit: 1, After: at.text()})
	require.ErrorIs(t, err, abstractions.ErrInvalid, "another server has become a master: its cursors are not the former's")
	require.ErrorContains(t, err, "from the start")
}

// scriptedListing lists one server, whose SCANs return the given names in turn.
func scriptedListing(req abstractions.ListRequest, scans [][]string) *Listing {
	n := script.Naming{Prefix: "leasing"}
	return &Listing{
		Req: req, Naming: n, Servers: 1,
		Scan: func(_ context.Context, at *Position, _ int) (Scanned, error) {
			var part Scanned
			for _, name := range scans[at.Cursor] {
				part.Keys = append(part.Keys, n.Keys(name).Name)
			}
			part.Next = (at.Cursor + 1) % uint64(len(scans))
			return part, nil
		},
		Records: func(_ context.Context, _ *Position, names []string) (records []abstractions.Record, err error) {
			for _, name := range names {
				records = append(records, abstractions.Record{Name: name, Token: int64(len(name)) - 1})
			}
			return records, nil
		},
	}
}

func pageOf(t *testing.T, l *Listing) (names []string, next string) {
	t.Helper()
	page, err := l.Page(t.Context())
	require.NoError(t, err)
	for _, record := range page.Records {
		names = append(names, record.Name)
	}
	return names, page.Next
}

// A name that SCAN returns twice is on a page only once.
func TestPageHasNoNameTwice(t *testing.T) {
	names, next := pageOf(t, scriptedListing(abstractions.ListRequest{}, [][]string{{"aa", "aa", "bb"}, {"bb", "cc", "aa"}, nil, {"dd"}}))
	require.Equal(t, []string{"aa", "bb", "cc", "dd"}, names)
	require.Empty(t, next)

	carried := [][]string{{"aa", "bb", "cc"}, {"cc", "dd"}}
	_, next = pageOf(t, scriptedListing(abstractions.ListRequest{Limit: 2}, carried))
	names, next = pageOf(t, scriptedListing(abstractions.ListRequest{Limit: 2, After: next}, carried))
	require.Equal(t, []string{"cc", "dd"}, names, "also one that was carried over")
	require.Empty(t, next)
}

// A page ends after a bounded number of SCANs, however few names they find. Forgotten
// names do not count towards the limit of a page.
func TestPageHasABound(t *testing.T) {
	scans := make([][]string, 3*maxScans)
	scans[1], scans[maxScans+1] = []string{"aa"}, []string{"bb"}
	names, next := pageOf(t, scriptedListing(abstractions.ListRequest{}, scans))
	require.Equal(t, []string{"aa"}, names)
	require.NotEmpty(t, next)
	names, next = pageOf(t, scriptedListing(abstractions.ListRequest{After: next}, scans))
	require.Equal(t, []string{"bb"}, names)
	require.NotEmpty(t, next)
	names, next = pageOf(t, scriptedListing(abstractions.ListRequest{After: next}, scans))
	require.Empty(t, names)
	require.Empty(t, next)

	forgotten := [][]string{{"a", "b", "cc", "d", "ee", "ff"}} // a name of one letter has token 0
	names, next = pageOf(t, scriptedListing(abstractions.ListRequest{Limit: 2}, forgotten))
	require.Equal(t, []string{"cc", "ee"}, names)
	names, next = pageOf(t, scriptedListing(abstractions.ListRequest{Limit: 2, After: next}, forgotten))
	require.Equal(t, []string{"ff"}, names)
	require.Empty(t, next)
}

func TestScanGrowsWhileItFindsLittle(t *testing.T) {
	for _, test := range []struct{ count, found, room, want int }{
		{100, 0, 100, 200}, {800, 0, 100, 1000}, {1000, 0, 1, 1000},
		{100, 100, 50, 50}, {100, 10, 50, 500}, {100, 1, 50, 1000}, {10, 10, 1, 10}, {1000, 500, 1, 10}, {10, 3, 0, 10},
	} {
		require.Equal(t, test.want, nextScan(test.count, test.found, test.room), "%+v", test)
	}
}
