package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos/torture"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
)

// etcdMember asks a member, through etcd's JSON gateway, whether it leads. It returns an error if the member has no leader.
func etcdMember(ctx context.Context, address string) (leads bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v3/maintenance/status", strings.NewReader("{}"))
	if err != nil {
		return false, err
	}
	req.Close = true
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	var status struct {
		Leader string
		Header struct {
			MemberID string `json:"member_id"`
		}
	}
	if err = json.NewDecoder(response.Body).Decode(&status); err == nil && strings.Trim(status.Leader, "0") == "" {
		err = errors.New("it knows no leader")
	}
	return err == nil && status.Leader == status.Header.MemberID, err
}

// electedProvider declares that leases may run out later, since a new leader starts each TTL from zero (docs/providers/etcd.md).
// The provider's own Capabilities.Lateness assumes a backend that stays up.
type electedProvider struct{ *etcdlease.Provider }

func (e electedProvider) Capabilities() leasing.Capabilities {
	c := e.Provider.Capabilities()
	c.Lateness.PerTTL++
	c.Lateness.Fixed += 15 * time.Second // for the election, on a busy machine
	return c
}

// The members of a cluster of three are killed one at a time, the leader every second time, and come back with their data.
func TestTortureOfMembersThatAreKilled_etcd(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	servertest.Require(t, "LEASING_TEST_ETCD")
	program := servertest.Tool(t, "ETCD", "../tools/etcd", "server")
	var addresses, peers, initial []string
	for i := range 3 {
		for _, list := range []*[]string{&addresses, &peers} {
			port, err := servertest.FreePort(t.Context())
			require.NoError(t, err)
			*list = append(*list, fmt.Sprintf("127.0.0.1:%d", port))
		}
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, peers[i]))
	}
	var members [3]*servertest.Process
	folder := t.TempDir()
	start := func(i int) (err error) {
		client, peer := "http://"+addresses[i], "http://"+peers[i]
		members[i], err = servertest.StartProcess(exec.Command(program,
			"--name", fmt.Sprint("m", i), "--data-dir", filepath.Join(folder, fmt.Sprint(i)), "--unsafe-no-fsync", "--log-level", "error",
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(initial, ",")))
		return err
	}
	answers := func(i int) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := etcdMember(ctx, addresses[i])
			return err
		}
	}
	for i := range members {
		require.NoError(t, start(i))
		t.Cleanup(func() { members[i].Kill() })
	}
	for i := range members {
		servertest.Eventually(t, "the member answers", answers(i))
	}
	during := 14 * time.Second
	if os.Getenv("LEASING_TEST_SLOW") != "" {
		during = 2 * time.Minute
	}
	report := run(t, torture.Options{
		For: during,
		Open: func(ctx context.Context) (leasing.Provider, error) {
			p, err := etcdlease.Open(ctx, etcdlease.Options{Endpoints: addresses})
			return electedProvider{p}, err
		},
		Disturb: func(ctx context.Context, report func(torture.Disturbance)) error {
			for i := 0; wait(ctx, 2*time.Second); i++ {
				victim, kind := i%len(members), "member killed"
				for leader := 0; i%2 == 0 && leader < len(members); leader++ {
					if leads, err := etcdMember(ctx, addresses[leader]); err == nil && leads {
						victim, kind = leader, "leader killed"
					}
				}
				report(torture.Disturbance{Kind: kind, For: time.Second})
				members[victim].Kill()
				wait(ctx, time.Second)
				if err := start(victim); err != nil {
					return err
				}
				servertest.Eventually(t, "the member is back", answers(victim))
			}
			return nil
		},
	})
	require.Positive(t, report.Disturbances["leader killed"])
	require.Positive(t, report.Disturbances["member killed"])
}
