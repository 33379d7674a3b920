// Package torture runs chaos/torture on every backend, for a few seconds each. `make torture` runs it for longer.
package torture

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	consullease "github.com/distributedleasing/leasing/providers/consul"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
	kuberneteslease "github.com/distributedleasing/leasing/providers/kubernetes"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
	sqlserverlease "github.com/distributedleasing/leasing/providers/sql/sqlserver"
)

// length is the time for which faults happen on each backend.
const length = 6 * time.Second

// workersFile is the environment variable that names the SQLite file for worker processes.
const workersFile = "LEASING_TORTURE_FILE"

func TestMain(m *testing.M) {
	torture.WorkerMain(func(ctx context.Context) (leasing.Provider, error) {
		return openFile(ctx, os.Getenv(workersFile))
	})
	goleak.VerifyTestMain(m)
}

func openFile(ctx context.Context, file string) (leasing.Provider, error) {
	return sqlitelease.Open(ctx, sqlitelease.Options{URL: "sqlite://" + file, Create: true})
}

// faultyPlan combines faults under which a backend keeps its promises: lost, late and duplicated requests, lost replies, delays,
// throttling, and a short partition.
func faultyPlan() chaos.Plan {
	plan := chaos.FlakyNetwork(chaos.FlakyNetworkOptions{})
	plan.Name = "a bit of everything"
	for _, other := range []chaos.Plan{
		chaos.ThrottledAccount(chaos.ThrottledAccountOptions{Probability: 0.05, RetryAfter: 100 * time.Millisecond}),
		chaos.Partition(chaos.PartitionOptions{From: 2 * time.Second, For: 3 * time.Second, Every: -1}),
		chaos.StealLease(chaos.StealLeaseOptions{}),
	} {
		plan.Rules = append(plan.Rules, other.Rules...)
	}
	return plan
}

// run tortures a backend and requires that no promise is violated.
func run(t *testing.T, options torture.Options) *torture.Report {
	t.Helper()
	options.Plan, options.For = faultyPlan(), cmp.Or(options.For, length)
	options.Workers, options.Names = 6, 3
	options.Patience = 15 * time.Second // other packages use the machine, too
	report := torture.Test(t, options)
	require.Positive(t, report.Grants)
	return report
}

// unique returns a name for the data of one run.
func unique() string { return "torture_" + strings.ToLower(rand.Text()[:8]) }

func TestTorture_memory(t *testing.T) {
	t.Parallel()
	run(t, torture.Options{Open: torture.Share(memlease.New(memlease.Options{})), TTL: time.Second})
}

func TestTorture_sqlite(t *testing.T) {
	t.Parallel()
	file := filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db"))
	run(t, torture.Options{Open: func(ctx context.Context) (leasing.Provider, error) { return openFile(ctx, file) }})
}

// Each worker is a process. Some are paused for longer than their TTL, and some are killed.
func TestTortureOfProcesses_sqlite(t *testing.T) {
	t.Parallel()
	file := filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db"))
	report := run(t, torture.Options{
		Open: func(ctx context.Context) (leasing.Provider, error) { return openFile(ctx, file) },
		Process: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), workersFile+"="+file)
			return cmd
		},
	})
	require.NotEmpty(t, report.Disturbances, "no process was stopped or killed")
	require.Positive(t, report.Accepted)
}

// onPostgres returns options with a schema of the test's own, and a handle for SQL that bypasses the provider.
func onPostgres(t *testing.T) (postgreslease.Options, *sql.DB) {
	t.Helper()
	options := postgreslease.Options{URL: servertest.Require(t, "LEASING_TEST_POSTGRES"), Schema: unique(), Create: true}
	db, err := sql.Open("pgx", options.URL)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err = db.ExecContext(context.Background(), "DROP SCHEMA IF EXISTS "+options.Schema+" CASCADE")
		require.NoError(t, err)
		require.NoError(t, db.Close())
	})
	return options, db
}

func TestTortureOfAServerThatForgets_postgres(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	options, db := onPostgres(t)
	report := run(t, torture.Options{
		Open:              func(ctx context.Context) (leasing.Provider, error) { return postgreslease.Open(ctx, options) },
		AssumptionsBroken: true,
		Disturb: func(ctx context.Context, report func(torture.Disturbance)) error {
			return loseLeases(ctx, report, func(ctx context.Context) error {
				_, err := db.ExecContext(ctx, "DELETE FROM "+options.Schema+".lease")
				return err
			})
		},
	})
	require.Positive(t, report.Disturbances["all leases lost"])
}

// The server crashes while all workers are busy. Its recovery restores the commits, which include each answered request.
func TestTortureOfAServerThatCrashes_postgres(t *testing.T) {
	t.Parallel()
	server := servertest.NewPostgres(t)
	during := 14 * time.Second
	if os.Getenv("LEASING_TEST_SLOW") != "" {
		during = 2 * time.Minute
	}
	report := run(t, torture.Options{
		For: during,
		Open: func(ctx context.Context) (leasing.Provider, error) {
			return postgreslease.Open(ctx, postgreslease.Options{URL: server.URL, Create: true})
		},
		Disturb: func(ctx context.Context, report func(torture.Disturbance)) error {
			for wait(ctx, 2*time.Second) {
				report(torture.Disturbance{Kind: "server crashed", For: time.Second})
				if err := server.Crash(context.WithoutCancel(ctx)); err != nil {
					return err
				}
			}
			return nil
		},
	})
	require.Positive(t, report.Disturbances["server crashed"])
}

func TestTorture_postgres(t *testing.T) {
	t.Parallel()
	options, _ := onPostgres(t)
	run(t, torture.Options{Open: func(ctx context.Context) (leasing.Provider, error) { return postgreslease.Open(ctx, options) }})
}

func TestTorture_redis(t *testing.T) {
	t.Parallel()
	options := redislease.Options{URL: servertest.Require(t, "LEASING_TEST_REDIS"), Prefix: unique()}
	run(t, torture.Options{Open: func(ctx context.Context) (leasing.Provider, error) { return redislease.Open(ctx, options) }})
}

// A server loses all its leases now and then, so two claims may hold a name for a while.
// But tokens still rise, so no stale write is accepted, and the loss is reported to the
// holder of the earlier lease.
func TestTortureOfAServerThatForgets_redis(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	options := redislease.Options{URL: servertest.Require(t, "LEASING_TEST_REDIS"), Prefix: unique()}
	configured, err := redis.ParseURL(options.URL)
	require.NoError(t, err)
	client := redis.NewClient(configured)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	report := run(t, torture.Options{
		Open:              func(ctx context.Context) (leasing.Provider, error) { return redislease.Open(ctx, options) },
		AssumptionsBroken: true,
		Disturb: func(ctx context.Context, report func(torture.Disturbance)) error {
			return loseLeases(ctx, report, func(ctx context.Context) error {
				keys, err := client.Keys(ctx, options.Prefix+":*").Result()
				if err != nil || len(keys) == 0 {
					return err
				}
				return client.Del(ctx, keys...).Err()
			})
		},
	})
	require.Positive(t, report.Disturbances["all leases lost"])
}

// loseLeases makes a server lose its leases from time to time.
func loseLeases(ctx context.Context, report func(torture.Disturbance), lose func(context.Context) error) error {
	tick := time.NewTicker(700 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			report(torture.Disturbance{Kind: "all leases lost"})
			if err := lose(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
	}
}

func TestTorture_redlock(t *testing.T) {
	t.Parallel()
	options := redislease.Options{URL: servertest.Require(t, "LEASING_TEST_REDLOCK"), Prefix: unique()}
	first, err := redislease.Open(t.Context(), options)
	require.NoError(t, err)
	require.NoError(t, first.Bootstrap(t.Context()))
	require.NoError(t, first.Close())
	run(t, torture.Options{Votes: true, Open: func(ctx context.Context) (leasing.Provider, error) { return redislease.Open(ctx, options) }})
}

// The test has three servers of its own, which store nothing on disk. They are killed in turn, and come back empty. No two are
// down at the same time, since a majority of the three is needed.
func TestTortureOfServersThatAreKilled_redlock(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	servertest.Require(t, "LEASING_TEST_REDIS")
	const maxTTL = 4 * time.Second // a server that comes back empty casts no vote for this long
	var servers [3]*servertest.Server
	var addresses []string
	for i := range servers {
		s := &servertest.Server{T: t, Dir: t.TempDir()}
		s.Command = func() (*exec.Cmd, error) {
			return exec.Command(cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server"),
				"--port", fmt.Sprint(s.Port()), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.Dir), nil
		}
		s.Answers = func(ctx context.Context) error {
			connection, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
			if err == nil {
				err = connection.Close()
			}
			return err
		}
		t.Cleanup(s.Close)
		require.NoError(t, s.Launch(t.Context()))
		servers[i], addresses = s, append(addresses, s.Addr())
	}
	options := redislease.Options{URL: "redis://" + strings.Join(addresses, ",") + "/0?mode=redlock&max_ttl=" + maxTTL.String()}
	first, err := redislease.Open(t.Context(), options)
	require.NoError(t, err)
	require.NoError(t, first.Bootstrap(t.Context()))
	require.NoError(t, first.Close())
	during := 14 * time.Second
	if os.Getenv("LEASING_TEST_SLOW") != "" {
		during = 2 * time.Minute
	}
	report := run(t, torture.Options{
		Votes: true, For: during,
		Open: func(ctx context.Context) (leasing.Provider, error) { return redislease.Open(ctx, options) },
		Disturb: func(ctx context.Context, report func(torture.Disturbance)) error {
			for i := 0; wait(ctx, time.Second); i = (i + 1) % len(servers) {
				report(torture.Disturbance{Kind: fmt.Sprintf("node %d killed", i+1), For: time.Second})
				servers[i].Kill()
				wait(ctx, time.Second)
				if err := servers[i].LaunchOn(context.WithoutCancel(ctx), servers[i].Port()); err != nil {
					return err
				}
				wait(ctx, maxTTL+time.Second)
			}
			return nil
		},
	})
	require.Positive(t, report.Disturbances["node 1 killed"])
	require.Positive(t, report.Disturbances["node 2 killed"])
}

// wait waits for d. It returns false if ctx ends before d is over.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func TestTorture_blob(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	options := bloblease.Options{ConnectionString: servertest.Require(t, "LEASING_TEST_AZURITE"), Container: "torture", Create: true}
	run(t, torture.Options{Open: func(ctx context.Context) (leasing.Provider, error) { return bloblease.Open(ctx, options) }})
}

// The container is deleted while workers hold leases. Then calls that need the container create a new container.
func TestTortureOfAContainerThatIsDeleted_blob(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	options := bloblease.Options{ConnectionString: servertest.Require(t, "LEASING_TEST_AZURITE"), Container: strings.ReplaceAll(unique(), "_", "-"), Create: true}
	transport := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(transport.CloseIdleConnections)
	var admin container.ClientOptions
	admin.Transport = transport
	client, err := container.NewClientFromConnectionString(options.ConnectionString, options.Container, &admin)
	require.NoError(t, err)
	report := run(t, torture.Options{
		Open:              func(ctx context.Context) (leasing.Provider, error) { return bloblease.Open(ctx, options) },
		AssumptionsBroken: true,
		Disturb: func(ctx context.Context, report func(torture.Disturbance)) error {
			return loseLeases(ctx, report, func(ctx context.Context) error {
				_, err := client.Delete(ctx, nil)
				if bloberror.HasCode(err, bloberror.ContainerNotFound) {
					return nil
				}
				return err
			})
		},
	})
	require.Positive(t, report.Disturbances["all leases lost"])
}

func TestTorture_cosmos(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	options := cosmoslease.Options{URL: servertest.Require(t, "LEASING_TEST_COSMOS")}
	run(t, torture.Options{Open: func(ctx context.Context) (leasing.Provider, error) { return cosmoslease.Open(ctx, options) }})
}

func TestTorture_s3(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	options := s3lease.Options{URL: servertest.Require(t, "LEASING_TEST_S3"), Prefix: unique()}
	run(t, torture.Options{Open: func(ctx context.Context) (leasing.Provider, error) { return s3lease.Open(ctx, options) }})
}

func TestTorture_etcd(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	options := etcdlease.Options{URL: servertest.Require(t, "LEASING_TEST_ETCD"), Prefix: unique()}
	run(t, torture.Options{Open: func(ctx context.Context) (leasing.Provider, error) { return etcdlease.Open(ctx, options) }})
}

func TestTorture_kubernetes(t *testing.T) {
	t.Parallel()
	url := servertest.Require(t, "LEASING_TEST_KUBERNETES")
	run(t, torture.Options{Open: func(ctx context.Context) (leasing.Provider, error) { return kuberneteslease.OpenURL(ctx, url) }})
}

func TestTorture_consul(t *testing.T) {
	t.Parallel()
	url := servertest.Require(t, "LEASING_TEST_CONSUL") + "/" + unique()
	run(t, torture.Options{Open: func(ctx context.Context) (leasing.Provider, error) { return consullease.OpenURL(ctx, url) }})
}

func TestTorture_mariadb(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	options := mysqllease.Options{URL: servertest.Require(t, "LEASING_TEST_MARIADB"), Table: unique(), Create: true, History: true}
	run(t, torture.Options{Open: func(ctx context.Context) (leasing.Provider, error) { return mysqllease.Open(ctx, options) }})
}

// Only the workflow sqlserver has a server for this test.
func TestTorture_sqlserver(t *testing.T) {
	t.Parallel()
	options := sqlserverlease.Options{URL: servertest.Require(t, "LEASING_TEST_SQLSERVER"), Table: unique(), Create: true, History: true}
	run(t, torture.Options{
		For:  time.Minute,
		Open: func(ctx context.Context) (leasing.Provider, error) { return sqlserverlease.Open(ctx, options) },
	})
}

// The server is killed while all workers are busy. Its recovery restores the commits.
func TestTortureOfAServerThatIsKilled_mariadb(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := servertest.NewMariaDB(t)
	options := mysqllease.Options{URL: "mysql://root@" + server.Addr() + "/mysql", Create: true}
	during := 14 * time.Second
	if os.Getenv("LEASING_TEST_SLOW") != "" {
		during = 2 * time.Minute
	}
	report := run(t, torture.Options{
		For:  during,
		Open: func(ctx context.Context) (leasing.Provider, error) { return mysqllease.Open(ctx, options) },
		Disturb: func(ctx context.Context, report func(torture.Disturbance)) error {
			for wait(ctx, 2*time.Second) {
				report(torture.Disturbance{Kind: "server killed", For: time.Second})
				server.Kill()
				if err := server.LaunchOn(context.WithoutCancel(ctx), server.Port()); err != nil {
					return err
				}
			}
			return nil
		},
	})
	require.Positive(t, report.Disturbances["server killed"])
}
