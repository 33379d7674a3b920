package redislease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// openListed opens a Redlock of three servers, and one provider for each server.
func openListed(t *testing.T) (servers []*redistest.Server, p *Provider, each []*Provider) {
	servers = redistest.StartMany(t, 3, redistest.Options{Password: "secret"})
	bootstrap(t, servers)
	for _, server := range servers {
		each = append(each, openTest(t, Options{URL: server.URL()}))
	}
	return servers, openTest(t, Options{URL: redlockURL(servers)}), each
}

// holdOn acquires names, and waits until all servers have granted them: a listing may
// miss names whose votes arrive during the listing.
func holdOn(t *testing.T, each []*Provider, p *Provider, names ...string) {
	t.Helper()
	hold(t, p, names...)
	for _, server := range each {
		for _, name := range names {
			require.Eventually(t, func() bool {
				record, err := server.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
				return err == nil && record.Held
			}, time.Minute, time.Millisecond)
		}
	}
}

// Each name is listed once, whichever of the servers have its record.
func TestListOfRedlockIsAUnion(t *testing.T) {
	t.Parallel()
	_, p, each := openListed(t)
	all := someNames("all/", 60)
	holdOn(t, each, p, all...)
	for i, prefix := range []string{"a/", "b/", "c/"} {
		hold(t, each[i], someNames(prefix, 10)...) // attempts without a majority: these names never had a holder
	}
	hold(t, each[0], "two")
	hold(t, each[2], "two")
	hold(t, each[1], "three")
	hold(t, each[2], "three")
	want := append(all, "two", "three")
	for _, limit := range []int{7, 100, 1000} {
		names, _ := listAll(t, p, abstractions.ListRequest{Limit: limit}, noOp)
		require.ElementsMatch(t, want, names, limit)
	}
	page, err := p.List(t.Context(), abstractions.ListRequest{Limit: 1000, HeldOnly: true})
	require.NoError(t, err)
	require.Len(t, page.Records, len(all), "a majority says who holds, and names two claims for the others")
	for _, record := range page.Records {
		inspected, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: record.Name})
		require.NoError(t, err)
		require.Equal(t, inspected.Fingerprint, record.Fingerprint)
		require.Equal(t, inspected.Token, record.Token)
	}
}

// The listing leaves out a minority that is down, or frozen, or has lost its data. A server in this
// state delays at most one page.
func TestListOfRedlockGoesOnWithoutAMinority(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*redistest.Server){
		"killed": (*redistest.Server).Kill, "frozen": (*redistest.Server).Pause, "empty": (*redistest.Server).RestartEmpty,
	} {
		for i := range 3 {
			t.Run(name, func(t *testing.T) {
				servers, p, each := openListed(t)
				want := someNames("all/", 40)
				holdOn(t, each, p, want...)
				fault(servers[i])
				began := time.Now()
				names, pages := listAll(t, p, abstractions.ListRequest{Limit: 5}, noOp)
				require.ElementsMatch(t, want, names)
				require.Less(t, time.Since(began), 20*time.Second, "%d pages", pages)
				if name == "frozen" {
					servers[i].Resume()
				}
			})
		}
	}
}

// A server that has lost its data receives releases. It then has the record of a name
// but casts no vote, and does not disturb the servers that vote.
func TestListOfRedlockHasTheNamesOfAServerInQuarantine(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		servers, p, _ := openListed(t)
		require.NoError(t, servers[i].Client(t).FlushAll(t.Context()).Err())
		req := claimOf("released")
		_, err := p.Acquire(t.Context(), req)
		require.NoError(t, err)
		require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: req.Name, ID: req.ID}))
		admin := servers[i].Client(t)
		require.Eventually(t, func() bool { return admin.Exists(t.Context(), keysOf(req.Name).Name).Val() == 1 }, time.Minute, time.Millisecond)
		hold(t, p, "held")
		names, _ := listAll(t, p, abstractions.ListRequest{}, noOp)
		require.ElementsMatch(t, []string{"released", "held"}, names, i)
	}
}

// An acquire returns once a majority has voted for it, so the vote of a slow server may arrive after that server
// was scanned.
func TestTrap_T283_AListingMissesNoNameWhoseLastVoteComesMeanwhile(t *testing.T) {
	t.Parallel()
	servers, _, each := openListed(t)
	late := claimOf("late")
	var clients []redis.UniversalClient
	for i, server := range servers {
		client, w := recordedClient(t, server)
		clients = append(clients, client)
		if i > 0 {
			_, err := each[i].Acquire(t.Context(), late)
			require.NoError(t, err)
		}
		if i == 1 {
			w.before = func(commands []redis.Cmder) {
				if commands[0].Name() == "scan" { // the first server was scanned
					_, err := each[0].Acquire(t.Context(), late)
					require.NoError(t, err)
				}
			}
		}
	}
	names, pages := listAll(t, openTest(t, Options{Clients: clients}), abstractions.ListRequest{}, noOp)
	require.Equal(t, 1, pages)
	require.Equal(t, []string{"late"}, names)
}

// If a server fails during a listing, names may be listed twice, but no name is left out.
func TestListOfRedlockLosesNoNameWhenAServerFailsMeanwhile(t *testing.T) {
	t.Parallel()
	servers, p, each := openListed(t)
	want := someNames("all/", 40)
	holdOn(t, each, p, want...)
	page := 0
	names, _ := listAll(t, p, abstractions.ListRequest{Limit: 5}, func() {
		if page++; page == 3 {
			servers[0].Kill()
		}
	})
	require.Subset(t, names, want)
}

func TestListOfRedlockNeedsAMajority(t *testing.T) {
	t.Parallel()
	servers, p, _ := openListed(t)
	hold(t, p, "name")
	servers[0].Kill()
	servers[2].Kill()
	_, err := p.List(t.Context(), abstractions.ListRequest{})
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.ErrorContains(t, err, "no majority")
	require.ErrorContains(t, err, "server 1 of 3")
}
