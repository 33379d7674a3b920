package redislease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
)

// pair is a master and its replica, which swap roles.
type pair struct {
	faulttest.SwitchOver
	t               *testing.T
	master, replica *redistest.Server
}

const appRights = "on >secret ~* &* +@all"

func newPair(t *testing.T) *pair {
	t.Helper()
	servers := redistest.StartMany(t, 2, redistest.Options{Users: []string{"app " + appRights}})
	p := &pair{t: t, master: servers[0], replica: servers[1]}
	require.NoError(t, p.replica.Client(t).ReplicaOf(t.Context(), "127.0.0.1", fmt.Sprint(p.master.Port())).Err())
	p.awaitReplication(p.replica, "role:slave", "master_link_status:up")
	p.awaitReplication(p.master, "role:master", "state=online")
	p.SwitchOver = faulttest.SwitchOver{Server: p.master.Addr(), Clients: map[string]func(testing.TB, string) abstractions.Provider{
		"own": func(t testing.TB, endpoint string) abstractions.Provider {
			return openTest(t, Options{URL: "redis://app:secret@" + endpoint})
		},
		"application's": func(t testing.TB, endpoint string) abstractions.Provider {
			client := redis.NewClient(&redis.Options{Addr: endpoint, Username: "app", Password: "secret"})
			t.Cleanup(func() { _ = client.Close() })
			return openTest(t, Options{Client: client})
		},
	}}
	return p
}

// awaitReplication waits until a server's replication INFO contains the lines.
func (p *pair) awaitReplication(s *redistest.Server, lines ...string) {
	p.t.Helper()
	admin := s.Client(p.t)
	servertest.Eventually(p.t, s.Addr(), func(ctx context.Context) error {
		text, err := admin.Info(ctx, "replication").Result()
		for _, line := range lines {
			if err == nil && !strings.Contains(text, line) {
				err = errors.New(text)
			}
		}
		return err
	})
}

// hangUp closes the clients' connections to the master.
func (p *pair) hangUp() {
	p.t.Helper()
	for _, kind := range []string{"NORMAL", "PUBSUB"} {
		require.NoError(p.t, p.master.Client(p.t).Do(p.t.Context(), "CLIENT", "KILL", "TYPE", kind).Err())
	}
}

// T165: the endpoint moves to the new master, and the old master continues as its replica.
func TestTrap_T165_TheEndpointMoves(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Endures(t, func(move func(string)) {
		require.NoError(t, p.master.Client(t).Do(t.Context(), "FAILOVER", "TO", "127.0.0.1", p.replica.Port()).Err())
		p.awaitReplication(p.replica, "role:master")
		p.awaitReplication(p.master, "role:slave", "master_link_status:up")
		move(p.replica.Addr())
	})
}

// T165: the endpoint leads to a replica for a while.
func TestTrap_T165_TheEndpointLeadsToAReplica(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	p := newPair(t)
	p.Endures(t, func(move func(string)) {
		move(p.replica.Addr())
		p.hangUp()
		<-time.After(2 * time.Second) // the fault
		move(p.master.Addr())
	})
}

// T166: the user is deleted, which closes its connections, and is created again later.
func TestTrap_T166_CredentialsAreGoneForAWhile(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	p := newPair(t)
	p.Endures(t, func(func(string)) {
		admin := p.master.Client(t)
		require.NoError(t, admin.ACLDelUser(t.Context(), "app").Err())
		<-time.After(4 * time.Second) // the fault
		require.NoError(t, admin.ACLSetUser(t.Context(), "app", strings.Fields(appRights)...).Err())
	})
}

// T167: a gateway forgets connections.
func TestTrap_T167_ThePathIsLost(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	newPair(t).EnduresLostPath(t)
}
