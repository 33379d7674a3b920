package redistest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/redis/go-redis/v9"
)

// slots is the number of hash slots of every Redis Cluster.
const slots = 16384

// Cluster is a Redis Cluster whose nodes are masters without replicas. Requests for slots
// of a dead node fail, and the other slots work while most nodes are up.
type Cluster struct {
	// Servers are the nodes, in the order of the slots they serve.
	Servers []*Server
}

// StartCluster starts a cluster with the given number of masters, and waits until each
// knows that every slot is served.
func StartCluster(t testing.TB, masters int) *Cluster {
	t.Helper()
	c := &Cluster{Servers: make([]*Server, masters)}
	for i := range c.Servers {
		c.Servers[i] = newNode(t)
	}
	startAll(t, c.Servers)
	ctx, cancel := servertest.Bounded(t)
	defer cancel()
	for i, s := range c.Servers {
		if err := c.join(ctx, i, s); err != nil {
			t.Fatalf("%s does not join the cluster: %v", s.Addr(), err)
		}
	}
	c.Ready()
	return c
}

// newNode makes a node that has joined no cluster. The timeout after which a silent
// node counts as failed is long enough for a busy machine; it also bounds the time for
// which a node stays out after a pause.
func newNode(t testing.TB) *Server {
	t.Helper()
	s := newServer(t, Options{})
	s.node = true
	s.role = append(s.role,
		"cluster-announce-ip 127.0.0.1",
		"cluster-node-timeout 2000",
		"cluster-require-full-coverage no")
	return s
}

// join gives node i its slots and its own epoch, as redis-cli does, and introduces the
// node to the first node.
func (c *Cluster) join(ctx context.Context, i int, s *Server) error {
	from, to := slotRange(i, len(c.Servers))
	first := c.Servers[0]
	err := errors.Join(
		s.admin.ClusterAddSlotsRange(ctx, from, to).Err(),
		s.admin.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
	if err != nil || s == first {
		return err
	}
	return s.admin.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", first.Port(), first.bus).Err()
}

// slotRange returns the first and the last slot of node i of n.
func slotRange(i, n int) (from, to int) { return i * slots / n, (i+1)*slots/n - 1 }

// Ready waits until each node knows that every slot is served. Call it after nodes have
// come back from a pause or a kill.
func (c *Cluster) Ready() {
	for _, s := range c.Servers {
		s.await("the node does not see the whole cluster", c.seenBy)
	}
}

// seenBy returns nil when a node sees all the others and every slot.
func (c *Cluster) seenBy(ctx context.Context, s *Server) error {
	if err := s.reachable(ctx); err != nil {
		return err
	}
	text, err := s.admin.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	return missingLines(text, []string{
		"cluster_state:ok",
		fmt.Sprintf("cluster_slots_ok:%d", slots),
		fmt.Sprintf("cluster_known_nodes:%d", len(c.Servers)),
		fmt.Sprintf("cluster_size:%d", len(c.Servers)),
	})
}

// Addrs returns the nodes' addresses, in the order of Servers.
func (c *Cluster) Addrs() []string { return addrs(c.Servers) }

func addrs(servers []*Server) []string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.Addr()
	}
	return all
}

// Client returns a new client of the cluster that obeys its contexts. It follows a
// redirection, and otherwise makes one attempt. It is closed when t ends; the caller
// may close it earlier.
func (c *Cluster) Client(t testing.TB) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                    c.Addrs(),
		ContextTimeoutEnabled:    true,
		MaxRetries:               -1,
		MaintNotificationsConfig: noNotifications(),
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
