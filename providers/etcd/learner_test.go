package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// addLearner adds a learner to the cluster, and returns its address.
func (c *cluster) addLearner() string {
	port, err := servertest.FreePort(c.t.Context())
	require.NoError(c.t, err)
	peer := fmt.Sprintf("http://127.0.0.1:%d", port)
	_, err = c.client.MemberAddAsLearner(c.t.Context(), []string{peer})
	require.NoError(c.t, err)
	m, path, data := &servertest.Server{T: c.t, Dir: c.t.TempDir()}, program(c.t, "server"), filepath.Join(c.t.TempDir(), "data")
	m.Command = func() (*exec.Cmd, error) {
		return exec.Command(path, "--name", "learner", "--data-dir", data, "--unsafe-no-fsync", "--log-level", "error",
			"--listen-client-urls", "http://"+m.Addr(), "--advertise-client-urls", "http://"+m.Addr(),
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster-state", "existing",
			"--initial-cluster", strings.Join(append(c.initial, "learner="+peer), ",")), nil
	}
	m.Answers = func(ctx context.Context) error {
		status, err := c.status(ctx, m.Addr())
		if err == nil && !status.IsLearner {
			err = errors.New("it is no learner")
		}
		return err
	}
	c.t.Cleanup(m.Close)
	require.NoError(c.t, m.Launch(c.t.Context()))
	return m.Addr()
}

// T176: a learner's refusal neither fails a call nor ends a wait, although it looks like the refusal of a cluster that is not set up.
func TestTrap_T176_ALearnerAmongTheEndpointsIsPassedOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	learner := c.addLearner()
	p := c.at(append(c.addrs, learner)...)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			name := fmt.Sprint("n", i)
			for n := range 5 {
				g, err := p.Acquire(t.Context(), acquireRequest(name, fmt.Sprint("id", n), time.Minute))
				if !assert.NoError(t, err) {
					return
				}
				results, err := p.RenewBatch(t.Context(), []abstractions.RenewRequest{renewRequest(g)})
				assert.NoError(t, errors.Join(err, results[0].Err))
				assert.NoError(t, p.Ping(t.Context()))
				_, err = p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
				assert.NoError(t, err)
				assert.NoError(t, p.Release(t.Context(), releaseRequest(g)))
			}
		})
	}
	all.Wait()

	o := Options{Prefix: "p", Timeout: 5 * time.Second, Endpoints: []string{learner}}
	_, err := Open(t.Context(), o)
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.NotErrorIs(t, err, abstractions.ErrNotSetUp)
	require.True(t, abstractions.NotApplied(err))
	require.ErrorContains(t, err, "voting members")
}

// T176: a call succeeds even if its client is at first connected only to the learner.
func TestTrap_T176_VotersMayConnectAfterALearner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	learner := c.addLearner()
	p := c.at(slowAddress(t, c.addrs[0]), learner)
	require.NoError(t, p.Release(t.Context(), releaseRequest(acquire(t, p, "n", "id", time.Minute))))
}

// slowAddress returns an address at which a member takes half a second to accept a connection.
func slowAddress(t *testing.T, member string) string {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			time.Sleep(time.Second / 2) //nolint:forbidigo // the delay of a network
			far, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", member)
			if err != nil {
				_ = near.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_ = to.Close()
			}
			connections.Go(func() { pass(far, near) })
			connections.Go(func() { pass(near, far) })
		}
	})
	t.Cleanup(connections.Wait) // after the provider has closed its connections
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// T177: etcd's own errors are classified by name, since FailedPrecondition is also the code of temporary refusals.
func TestTrap_T177_EtcdsOwnErrorsDecide(t *testing.T) {
	for of, class := range map[error]providerkit.Class{
		rpctypes.ErrGRPCNotSupportedForLearner: providerkit.Unsent,
		rpctypes.ErrGRPCNotLeader:              providerkit.Unsent,
		rpctypes.ErrGRPCNotCapable:             providerkit.Unsent,
		rpctypes.ErrGRPCLeaseExist:             providerkit.Unknown,
		rpctypes.ErrGRPCLeaderChanged:          providerkit.Unknown,
		rpctypes.ErrGRPCTimeout:                providerkit.Unknown,
		rpctypes.ErrGRPCDowngradeInProcess:     providerkit.Unknown,
		rpctypes.ErrGRPCNoSpace:                providerkit.Refused,
		rpctypes.ErrGRPCRequestTooManyRequests: providerkit.Refused,
		rpctypes.ErrGRPCPermissionDenied:       providerkit.Denied,
		rpctypes.ErrGRPCAuthFailed:             providerkit.Denied,
		rpctypes.ErrGRPCAuthNotEnabled:         providerkit.NotSetUp,
		rpctypes.ErrGRPCRequestTooLarge:        providerkit.Invalid,
	} {
		for _, err := range []error{of, rpctypes.Error(of), fmt.Errorf("wrapped: %w", rpctypes.Error(of))} {
			require.Equal(t, class, (*driver)(nil).Classify(err).Class, "%v", err)
		}
	}
}

// T178: renewals succeed if members accept fewer operations in a transaction than by default, too
// few for a full batch of renewals.
func TestTrap_T178_BatchesFitWhatMembersTake(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "--max-txn-ops", "20")
	p := c.open()
	var reqs []abstractions.RenewRequest
	for i := range 100 {
		reqs = append(reqs, renewRequest(acquire(t, p, fmt.Sprint("n", i), "id", time.Minute)))
	}
	for range 2 {
		results, err := p.RenewBatch(t.Context(), reqs)
		require.NoError(t, err)
		for _, r := range results {
			require.NoError(t, r.Err)
		}
	}
	require.LessOrEqual(t, p.driver.store.keeper.perCheck.Load(), int64(10))
}
