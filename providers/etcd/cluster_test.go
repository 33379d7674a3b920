package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// program returns the path of etcd's server, or of etcdutl.
func program(t testing.TB, name string) string {
	servertest.Require(t, "LEASING_TEST_ETCD")
	return servertest.Tool(t, "", "../../integration/tools/etcd", name)
}

// cluster is a set of members that a test kills and pauses.
type cluster struct {
	t       testing.TB
	members []*servertest.Server
	data    []string // the members' folders
	peers   []string
	initial []string
	addrs   []string
	client  *clientv3.Client
}

func newCluster(t testing.TB, size int, flags ...string) *cluster {
	t.Helper()
	path := program(t, "server")
	c := &cluster{t: t, members: make([]*servertest.Server, size)}
	port := func() int {
		port, err := servertest.FreePort(t.Context())
		require.NoError(t, err)
		return port
	}
	for i := range size {
		c.peers = append(c.peers, fmt.Sprintf("127.0.0.1:%d", port()))
		c.data = append(c.data, filepath.Join(t.TempDir(), "data"))
		c.initial = append(c.initial, fmt.Sprintf("m%d=http://%s", i, c.peers[i]))
	}
	for i := range size {
		m := &servertest.Server{T: t, Dir: t.TempDir()}
		m.Command = func() (*exec.Cmd, error) {
			return exec.Command(path, append([]string{
				"--name", fmt.Sprint("m", i), "--data-dir", c.data[i], "--unsafe-no-fsync", "--log-level", "error",
				"--listen-client-urls", "http://" + m.Addr(), "--advertise-client-urls", "http://" + m.Addr(),
				"--listen-peer-urls", "http://" + c.peers[i], "--initial-advertise-peer-urls", "http://" + c.peers[i],
				"--initial-cluster", strings.Join(c.initial, ","),
			}, flags...)...), nil
		}
		m.Answers = func(context.Context) error { return nil } // a member answers only if a majority runs
		t.Cleanup(m.Close)
		require.NoError(t, m.Launch(t.Context()))
		c.members[i], c.addrs = m, append(c.addrs, m.Addr())
	}
	var err error
	c.client, err = clientv3.New(clientv3.Config{Endpoints: c.addrs, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: time.Second, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.client.Close() })
	servertest.Eventually(t, "the cluster answers", c.answers)
	return c
}

// snapshot saves the cluster's data, and returns the file.
func (c *cluster) snapshot() string {
	saved, err := c.client.Snapshot(c.t.Context())
	require.NoError(c.t, err)
	path := filepath.Join(c.t.TempDir(), "snapshot")
	file, err := os.Create(path)
	require.NoError(c.t, err)
	_, err = io.Copy(file, saved)
	require.NoError(c.t, errors.Join(err, saved.Close(), file.Close()))
	return path
}

// restore restarts a single member from a snapshot, following the steps in etcd's documentation.
func (c *cluster) restore(snapshot string) {
	c.members[0].Kill()
	cmd := exec.CommandContext(c.t.Context(), program(c.t, "etcdutl"), "snapshot", "restore", snapshot, "--data-dir", c.data[0]+"-restored",
		"--name", "m0", "--initial-cluster", c.initial[0], "--initial-advertise-peer-urls", "http://"+c.peers[0])
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "%s", out)
	c.restart("-restored")
}

// restart restarts a single member with another folder, whose name has the suffix.
func (c *cluster) restart(suffix string) {
	c.members[0].Kill()
	c.data[0] += suffix
	c.members[0].Restart()
	servertest.Eventually(c.t, "the cluster answers", c.answers)
}

func (c *cluster) revision() int64 {
	now, err := c.client.Get(c.t.Context(), "x")
	require.NoError(c.t, err)
	return now.Header.Revision
}

func (c *cluster) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := c.client.Get(ctx, "x")
	return err
}

// leader returns the number of the leader.
func (c *cluster) leader() (leader int) {
	servertest.Eventually(c.t, "there is a leader", func(ctx context.Context) error {
		for i, addr := range c.addrs {
			if status, err := c.status(ctx, addr); err == nil && status.Leader == status.Header.MemberId {
				leader = i
				return nil
			}
		}
		return context.DeadlineExceeded
	})
	return leader
}

func (c *cluster) status(ctx context.Context, addr string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return c.client.Status(ctx, addr)
}

// moveLeader makes the leader hand over to another member that answers.
func (c *cluster) moveLeader() {
	servertest.Eventually(c.t, "another member leads", func(ctx context.Context) (err error) {
		old := c.leader()
		alone, err := clientv3.New(clientv3.Config{Endpoints: c.addrs[old : old+1], Logger: zap.NewNop()})
		if err != nil {
			return err
		}
		defer alone.Close()
		err = errors.New("nobody answers")
		for i := range len(c.addrs) - 1 {
			to, failed := c.status(ctx, c.addrs[(old+1+i)%len(c.addrs)])
			if failed != nil {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			if _, err = alone.MoveLeader(ctx, to.Header.MemberId); err == nil {
				return nil
			}
		}
		return err
	})
}

// open returns a provider whose endpoints are the given members, or by default all members.
func (c *cluster) open(members ...int) *Provider {
	if len(members) == 0 {
		return c.at(c.addrs...)
	}
	var addrs []string
	for _, i := range members {
		addrs = append(addrs, c.addrs[i])
	}
	return c.at(addrs...)
}

func (c *cluster) at(addrs ...string) *Provider {
	return open(c.t, Options{Prefix: "p", Timeout: 5 * time.Second, Endpoints: addrs})
}

func (c *cluster) raise(alarm pb.AlarmType) {
	_, err := pb.NewMaintenanceClient(c.client.ActiveConnection()).Alarm(c.t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: alarm})
	require.NoError(c.t, err)
}

func acquireRequest(name, id string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: id, Owner: "test", TTL: ttl}
}

func renewRequest(g abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State}
}

func releaseRequest(g abstractions.Grant) abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State}
}

func acquire(t testing.TB, p *Provider, name, id string, ttl time.Duration) abstractions.Grant {
	t.Helper()
	g, err := p.Acquire(t.Context(), acquireRequest(name, id, ttl))
	require.NoError(t, err)
	return g
}

// obtain retries until the name is free.
func obtain(t testing.TB, p *Provider, name, id string, ttl time.Duration) (g abstractions.Grant) {
	t.Helper()
	servertest.Eventually(t, "the name is free", func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		g, err = p.Acquire(ctx, acquireRequest(name, id, ttl))
		return err
	})
	return g
}
