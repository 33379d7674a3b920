package consullease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// cluster is three servers that elect a leader, each with its own agent.
type cluster struct {
	t       testing.TB
	servers [3]*servertest.Process
	agents  [3]Options
	asked   [3]*Provider // clients of the servers' agents, used by ask
	raft    [3]string    // the servers' addresses for each other
}

// newCluster starts a cluster. Elections take longer with a greater multiplier; Consul's default is 5.
func newCluster(t testing.TB, multiplier int) *cluster {
	t.Helper()
	serverURL(t)
	path := servertest.Tool(t, "CONSUL", "../../integration/tools/consul", "consul")
	var err error
	var ports [3][3]int
	var join []string
	c := &cluster{t: t}
	for i := range c.servers {
		for j := range ports[i] {
			ports[i][j], err = servertest.FreePort(t.Context())
			require.NoError(t, err)
		}
		c.agents[i] = Options{Address: fmt.Sprintf("http://127.0.0.1:%d", ports[i][0])}
		c.asked[i], c.raft[i] = openUnprobed(t, c.agents[i]), fmt.Sprintf("127.0.0.1:%d", ports[i][1])
		join = append(join, "-retry-join", fmt.Sprintf("127.0.0.1:%d", ports[i][2]))
	}
	for i := range c.servers {
		c.servers[i], err = servertest.StartProcess(exec.Command(path, append([]string{
			"agent", "-server", "-bootstrap-expect=3", "-retry-interval=1s", "-data-dir", t.TempDir(), "-node", fmt.Sprint("n", i),
			"-bind", "127.0.0.1", "-client", "127.0.0.1", "-log-level", "error",
			"-hcl", fmt.Sprintf(`ports { http = %d, server = %d, serf_lan = %d, serf_wan = -1, dns = -1, grpc = -1, grpc_tls = -1 }
				performance { raft_multiplier = %d } disable_update_check = true`, ports[i][0], ports[i][1], ports[i][2], multiplier),
		}, join...)...))
		require.NoError(t, err)
		t.Cleanup(c.servers[i].Kill)
	}
	c.leader()
	return c
}

// ask sends a request to one of the agents.
func (c *cluster) ask(ctx context.Context, server int, method, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := c.asked[server].driver.store.client.Do(ctx, method, path, nil, nil, into)
	return err
}

// leader waits until all servers agree on a leader. If but is given, that server is not asked, and is not the
// leader.
func (c *cluster) leader(but ...int) (leader int) {
	c.t.Helper()
	servertest.Eventually(c.t, "there is a leader", func(ctx context.Context) error {
		leaders := map[string]bool{}
		for i := range c.servers {
			if len(but) > 0 && i == but[0] {
				continue
			}
			var raft string
			if err := c.ask(ctx, i, http.MethodGet, "/v1/status/leader", &raft); err != nil {
				return err
			}
			leaders[raft] = true
		}
		for i, raft := range c.raft {
			if len(leaders) == 1 && leaders[raft] && (len(but) == 0 || i != but[0]) {
				leader = i
				return nil
			}
		}
		return fmt.Errorf("leaders: %v", leaders)
	})
	return leader
}

// others returns the other two servers.
func others(server int) (one, another int) { return (server + 1) % 3, (server + 2) % 3 }

func (c *cluster) pause(server int) { require.NoError(c.t, c.servers[server].Pause()) }

func (c *cluster) resume(server int) { require.NoError(c.t, c.servers[server].Resume()) }

// A holder uses the leader, which is killed or paused, or loses its followers. The loss is reported to
// the holder before another claim gets the name from another server. A paused server resumes with its
// pending requests.
func TestLossOfTheLeaderIsSignalledBeforeTheNameIsFree(t *testing.T) {
	const ttl = 3 * time.Second
	for name, harm := range map[string]func(c *cluster, leader int) (mend func()){
		"killed": func(c *cluster, leader int) func() {
			c.servers[leader].Kill()
			return func() {}
		},
		"paused": func(c *cluster, leader int) func() {
			c.pause(leader)
			return func() { c.resume(leader) }
		},
		"alone": func(c *cluster, leader int) func() {
			one, another := others(leader)
			c.pause(one)
			c.pause(another)
			return func() {
				c.resume(one)
				c.resume(another)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1)
			leader := c.leader()
			one, _ := others(leader)
			faulttest.LossIsReportedAfter(t, ttl, open(t, c.agents[leader]), open(t, c.agents[one]), func() func() { return harm(c, leader) })
		})
	}
}

// Leases with a TTL longer than an election are held through the election, whatever happens to the leader, and
// keep their token. No other claim gets their names during the election, and the next claim after a release has
// a greater token.
func TestRenewalsGoOnThroughAnElection(t *testing.T) {
	const leases, cadence = 32, time.Second
	for name, harm := range map[string]func(c *cluster, leader int){
		"killed": func(c *cluster, leader int) { c.servers[leader].Kill() },
		"paused": func(c *cluster, leader int) { c.pause(leader) },
		"moved": func(c *cluster, leader int) {
			var moved struct{ Success bool }
			require.NoError(c.t, c.ask(c.t.Context(), leader, http.MethodPost, "/v1/operator/raft/transfer-leader", &moved))
			require.True(c.t, moved.Success)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 5)
			leader := c.leader()
			mine, theirs := others(leader)
			behind, w := openOverWire(t, c.agents[mine])
			var lock sync.Mutex
			answers := map[string]int{}
			*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
				response, err := send(req)
				lock.Lock()
				defer lock.Unlock()
				if err != nil {
					answers[err.Error()]++
				} else {
					answers[response.Status]++
				}
				return response, err
			}
			m, err := leasing.NewManager(behind, leasing.Options{TTL: 2 * time.Minute, RenewCadence: cadence})
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close(context.WithoutCancel(t.Context()))) }()
			var held [leases]*leasing.Lease
			for i := range held {
				held[i], err = m.Acquire(t.Context(), fmt.Sprint("election/", i))
				require.NoError(t, err)
			}
			renewed := func(ctx context.Context) error { // two more renewals of each lease: the second was sent after this call
				var before [leases]int
				for i, lease := range held {
					before[i] = lease.Renewals()
				}
				for i := 0; i < leases; {
					switch {
					case held[i].Err() != nil:
						t.Fatal(held[i].Err())
					case held[i].Renewals() > before[i]+1:
						i++
					case ctx.Err() != nil:
						return ctx.Err()
					default:
						<-time.After(10 * time.Millisecond)
					}
				}
				return nil
			}
			rival := open(t, c.agents[theirs])
			take := func(ctx context.Context, lease *leasing.Lease) (abstractions.Grant, error) {
				ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
				defer cancel()
				return rival.Acquire(ctx, acquireRequest(lease.Name(), time.Minute))
			}
			servertest.Eventually(t, "all are renewed", renewed)

			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for i := 0; ; i = (i + 1) % leases {
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
						if _, err := take(t.Context(), held[i]); !errors.Is(err, abstractions.ErrHeld) && !errors.Is(err, abstractions.ErrUnavailable) {
							t.Errorf("somebody else got a name that is held: %v", err)
						}
					}
				}
			}()
			lock.Lock()
			clear(answers)
			lock.Unlock()
			begun := time.Now()
			harm(c, leader)
			other := c.leader(leader)
			elected := time.Since(begun)
			servertest.Eventually(t, "all are renewed again", renewed)
			lock.Lock()
			t.Logf("%s: the others agree on a leader after %v, all %d leases are renewed after %v; answers: %v", name, elected, leases, time.Since(begun), answers)
			lock.Unlock()
			if name == "paused" {
				c.resume(leader)
				require.Equal(t, other, c.leader(), "who was stopped follows")
				servertest.Eventually(t, "all are renewed once more", renewed)
			}
			close(stop)
			<-stopped
			for _, lease := range held {
				token := lease.Token()
				require.NoError(t, lease.Release(t.Context()))
				grant, err := take(t.Context(), lease)
				require.NoError(t, err)
				require.Greater(t, grant.Token, token)
			}
		})
	}
}
