package redislease

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// hold acquires each name under a claim of its own.
func hold(t testing.TB, p *Provider, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := p.Acquire(t.Context(), abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "o", TTL: time.Minute})
		require.NoError(t, err)
	}
}

func someNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%05d", prefix, i)
	}
	return names
}

// listAll reads all pages, and calls the function between after each page except the last.
func listAll(t testing.TB, p *Provider, req abstractions.ListRequest, between func()) (names []string, pages int) {
	t.Helper()
	for pages = 1; ; pages++ {
		page, err := p.List(t.Context(), req)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Records), req.PageLimit())
		for _, record := range page.Records {
			names = append(names, record.Name)
		}
		if page.Next == "" {
			return names, pages
		}
		req.After = page.Next
		between()
	}
}

func noOp() {}

// A few names among many foreign keys are found in few pages, and many names
// fill their pages.
func TestListAmongOthersKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	for from := 0; from < 30000; from += 1000 {
		_, err := client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for i := range 1000 {
				pipe.Set(t.Context(), fmt.Sprintf("others:%d", from+i), 1, 0)
			}
			return nil
		})
		require.NoError(t, err)
	}
	p := openTest(t, Options{URL: server.URL()})
	few, many := someNames("few/", 7), someNames("many/", 2000)
	hold(t, p, few...)
	hold(t, p, many...)

	names, pages := listAll(t, p, abstractions.ListRequest{Prefix: "few/"}, noOp)
	require.ElementsMatch(t, few, names)
	require.LessOrEqual(t, pages, 3)
	names, pages = listAll(t, p, abstractions.ListRequest{Limit: 1000}, noOp)
	require.ElementsMatch(t, append(few, many...), names)
	require.LessOrEqual(t, pages, 5)
}

// Names from a SCAN that exceed the page are returned on the next page, without a second SCAN.
func TestListCarriesOverWhatHasNoRoom(t *testing.T) {
	t.Parallel()
	p := openTest(t, Options{URL: redistest.Start(t, redistest.Options{}).URL()})
	want := someNames("name/", 300)
	hold(t, p, want...)
	var longest int
	req := abstractions.ListRequest{Limit: 1}
	var names []string
	for {
		page, err := p.List(t.Context(), req)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Records), 1)
		for _, record := range page.Records {
			names = append(names, record.Name)
		}
		if page.Next == "" {
			break
		}
		longest = max(longest, len(page.Next))
		req.After = page.Next
	}
	require.ElementsMatch(t, want, names)
	require.Less(t, longest, 1000, "it carries a few names along, not all")
}

// Names that exist throughout are listed once while the table of keys grows,
// and at least once while it shrinks.
func TestListWhileTheTableChanges(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	p := openTest(t, Options{URL: server.URL()})
	want := someNames("name/", 200)
	hold(t, p, want...)
	grown := 0
	grow := func() {
		if grown < 20 {
			for i := range 1000 {
				client.Set(t.Context(), fmt.Sprintf("other:%d:%d", grown, i), 1, 0)
			}
			grown++
		}
	}
	names, _ := listAll(t, p, abstractions.ListRequest{Limit: 20}, grow)
	require.ElementsMatch(t, want, names)

	shrink := func() {
		if grown > 0 {
			grown--
			for i := range 1000 {
				client.Del(t.Context(), fmt.Sprintf("other:%d:%d", grown, i))
			}
		}
	}
	names, _ = listAll(t, p, abstractions.ListRequest{Limit: 20}, shrink)
	slices.Sort(names)
	require.Equal(t, want, slices.Compact(names))
}

// Keys under the prefix that do not hold the record of a name are not listed.
func TestListSkipsWhatIsNoName(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	p := openTest(t, Options{URL: server.URL()})
	client := server.Client(t)
	for _, key := range []string{"leasing:{}:fence", "leasing:{a{b}:fence", "leasing:{%zz}:fence", "leasing:{\xff}:fence", "leasing:{a\n}:fence", "leasing:node", "leasing:{x}:fence:y"} {
		require.NoError(t, client.Set(t.Context(), key, "1 ", 0).Err())
	}
	hold(t, p, "mine", "other")
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "never held", ID: abstractions.NewID()}))
	names, _ := listAll(t, p, abstractions.ListRequest{}, noOp)
	require.ElementsMatch(t, []string{"mine", "other"}, names)
	names, _ = listAll(t, openTest(t, Options{URL: server.URL(), Prefix: "leasing2"}), abstractions.ListRequest{}, noOp)
	require.Empty(t, names)
}

func TestListOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	p := openTest(t, Options{URL: clusterURL(cluster)})
	want := someNames("name/", 300)
	hold(t, p, want...)
	for _, limit := range []int{7, 100, 1000} {
		names, _ := listAll(t, p, abstractions.ListRequest{Limit: limit}, noOp)
		require.ElementsMatch(t, want, names, limit)
	}
	cluster.Servers[1].Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := listUntil(ctx, p)
	require.ErrorIs(t, err, abstractions.ErrUnavailable, "no part of a listing is left out without a word")
}

// listUntil reads pages until the last one or an error, and returns the number of records.
func listUntil(ctx context.Context, p *Provider) (n int, err error) {
	var req abstractions.ListRequest
	for {
		page, err := p.List(ctx, req)
		if n += len(page.Records); err != nil || page.Next == "" {
			return n, err
		}
		req.After = page.Next
	}
}
