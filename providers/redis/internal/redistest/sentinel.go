package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/redis/go-redis/v9"
)

// Sentinel is a master with two replicas, and three sentinels of which two have to
// agree that the master is down. They agree after the master has been silent for a
// second.
type Sentinel struct {
	// MasterName is the sentinels' name for the master.
	MasterName string
	// Servers are the first master and then its replicas.
	Servers []*Server
	// Sentinels are the processes that watch the servers.
	Sentinels []*Server
}

// StartSentinel starts the six servers and waits until a failover would work.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	master := Start(t, Options{})
	c := &Sentinel{MasterName: "leases", Servers: []*Server{master}}
	for range 2 {
		c.Servers = append(c.Servers, newReplica(t, master))
	}
	startAll(t, c.Servers[1:])
	for _, s := range c.Servers[1:] {
		s.await("the replica does not follow", checkReplica)
	}

	// The sentinels start last: a sentinel asks a replica for its state only every ten
	// seconds, and until then keeps the initial state.
	for range 3 {
		c.Sentinels = append(c.Sentinels, newSentinel(t, c.MasterName, master))
	}
	startAll(t, c.Sentinels)
	c.Ready()
	return c
}

func newReplica(t testing.TB, master *Server) *Server {
	t.Helper()
	s := newServer(t, Options{})
	s.role = append(s.role, fmt.Sprintf("replicaof 127.0.0.1 %d", master.Port()))
	return s
}

func newSentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	s := newServer(t, Options{})
	s.args = []string{"--sentinel"}
	s.role = []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", name, master.Port()),
		fmt.Sprintf("sentinel down-after-milliseconds %s 1000", name),
		fmt.Sprintf("sentinel failover-timeout %s 3000", name),
		fmt.Sprintf("sentinel parallel-syncs %s 2", name),
	}
	return s
}

// Addrs returns the addresses of the sentinels.
func (c *Sentinel) Addrs() []string { return addrs(c.Sentinels) }

// Client returns a new client of the current master. It makes one attempt and obeys its
// contexts. It is closed when t ends; the caller may close it earlier.
func (c *Sentinel) Client(t testing.TB) redis.UniversalClient {
	t.Helper()
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:            c.MasterName,
		SentinelAddrs:         c.Addrs(),
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Master returns the server that the sentinels name. It waits until all sentinels that
// answer, at least two, name the same server, and the server reports that it is the master.
func (c *Sentinel) Master() *Server { return c.WaitForFailover(nil) }

// WaitForFailover waits until Master would return a server other than old, and returns
// that server.
func (c *Sentinel) WaitForFailover(old *Server) (master *Server) {
	t := c.Servers[0].T
	t.Helper()
	servertest.Eventually(t, "no new master", func(ctx context.Context) (err error) {
		if master, err = c.agreedMaster(ctx); err == nil && master == old {
			return errors.New("the master is still the old one")
		}
		return err
	})
	return master
}

// Failover makes a sentinel promote a replica while the old master is healthy, waits
// for the new master, and returns that server.
func (c *Sentinel) Failover() *Server {
	old := c.Master()
	c.Sentinels[0].await("the sentinel starts no failover", func(ctx context.Context, s *Server) error {
		return ask(ctx, s, func(sentinel *redis.SentinelClient) error {
			return sentinel.Failover(ctx, c.MasterName).Err()
		})
	})
	return c.WaitForFailover(old)
}

// Ready waits until each sentinel sees a healthy master, two healthy replicas and two other
// healthy sentinels: a failover would work.
func (c *Sentinel) Ready() {
	for _, s := range c.Sentinels {
		s.await("the sentinel does not see all", c.seesAll)
	}
}

// seesAll returns nil if a sentinel reports all servers and all other sentinels as healthy.
func (c *Sentinel) seesAll(ctx context.Context, s *Server) error {
	return ask(ctx, s, func(sentinel *redis.SentinelClient) error {
		master, err := sentinel.Master(ctx, c.MasterName).Result()
		if err != nil {
			return err
		}
		replicas, err := sentinel.Replicas(ctx, c.MasterName).Result()
		if err != nil {
			return err
		}
		others, err := sentinel.Sentinels(ctx, c.MasterName).Result()
		if err != nil {
			return err
		}
		return errors.Join(
			checkHealthy([]map[string]string{master}, 1, "master"),
			checkHealthy(replicas, len(c.Servers)-1, "slave"),
			checkHealthy(others, len(c.Sentinels)-1, "sentinel"))
	})
}

// checkHealthy checks that a sentinel reports n servers of a kind, without further flags, such
// as s_down, and without a broken link to the master.
func checkHealthy(servers []map[string]string, n int, kind string) error {
	if len(servers) != n {
		return fmt.Errorf("%d of kind %s, not %d", len(servers), kind, n)
	}
	for _, server := range servers {
		if server["flags"] != kind {
			return fmt.Errorf("%s:%s is %q", server["ip"], server["port"], server["flags"])
		}
		if link, ok := server["master-link-status"]; ok && link != "ok" {
			return fmt.Errorf("%s:%s has its link to the master %q", server["ip"], server["port"], link)
		}
	}
	return nil
}

// agreedMaster returns the master that all answering sentinels name.
func (c *Sentinel) agreedMaster(ctx context.Context) (*Server, error) {
	named := make(map[string]int)
	for _, s := range c.Sentinels {
		_ = ask(ctx, s, func(sentinel *redis.SentinelClient) error {
			addr, err := sentinel.GetMasterAddrByName(ctx, c.MasterName).Result()
			if err == nil {
				named[strings.Join(addr, ":")]++
			}
			return err
		})
	}
	for _, s := range c.Servers {
		if len(named) == 1 && named[s.Addr()] >= 2 {
			return s, isMaster(ctx, s)
		}
	}
	return nil, fmt.Errorf("the sentinels name as master, so many times: %v", named)
}

// ask calls questions with a new client of a sentinel.
func ask(ctx context.Context, s *Server, questions func(*redis.SentinelClient) error) error {
	if err := s.reachable(ctx); err != nil {
		return err
	}
	client := redis.NewSentinelClient(s.clientOptions(harness, s.secret))
	return errors.Join(questions(client), client.Close())
}
