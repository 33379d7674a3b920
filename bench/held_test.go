package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/bench/internal/meter"
	"github.com/distributedleasing/leasing/open"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

const (
	heldLeases = 100_000
	heldFor    = time.Minute
	heldTTL    = 30 * time.Second
)

// BenchmarkHeld holds 100,000 leases of 30 s for a minute with metrics on and
// reports the costs: memory per lease (without the backend's records if the backend is another
// process), goroutines, CPU seconds, and leases lost.
func BenchmarkHeld(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
			hold(b, memlease.New(memlease.Options{}))
		}
	})
	b.Run("sqlite", func(b *testing.B) {
		for b.Loop() {
			p, err := sqlitelease.Open(b.Context(), sqlitelease.Options{
				URL: "sqlite://" + filepath.Join(b.TempDir(), "leases.db"), Synchronous: "normal", Create: true,
			})
			if err != nil {
				b.Fatal(err)
			}
			hold(b, p)
			if err := p.Close(); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkHeldHour renews each of 10,000 leases every 1.8 s for 6 minutes: as often as a lease of 30 s
// is renewed in an hour, and at the rate of 100,000 such leases. It reports the size of the leases'
// tables and indexes at the beginning, half-way and at the end, with unchanged autovacuum settings.
func BenchmarkHeldHour(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "leases.db")
		for b.Loop() {
			holdForAnHour(b, "sqlite://"+path+"?create=true", func() (size int64) {
				for _, file := range []string{path, path + "-wal"} {
					if info, err := os.Stat(file); err == nil {
						size += info.Size()
					}
				}
				return size
			})
		}
	})
	b.Run("postgres", func(b *testing.B) {
		url := servertest.Require(b, "LEASING_TEST_POSTGRES")
		conn, err := pgx.Connect(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close(context.Background())
		defer conn.Exec(context.Background(), "DROP SCHEMA IF EXISTS bench_held CASCADE")
		separator := "?"
		if strings.Contains(url, "?") {
			separator = "&"
		}
		for b.Loop() {
			holdForAnHour(b, url+separator+"schema=bench_held&create=true", func() (size int64) {
				if err := conn.QueryRow(b.Context(), "SELECT pg_total_relation_size('bench_held.lease')").Scan(&size); err != nil {
					b.Error(err)
				}
				return size
			})
		}
	})
}

func holdForAnHour(b *testing.B, url string, size func() int64) {
	const leases, half = 10_000, 3 * time.Minute
	provider, err := open.URL(b.Context(), url, sqlitelease.Opener(), postgreslease.Opener())
	if err != nil {
		b.Fatal(err)
	}
	defer provider.Close()
	m, err := leasing.NewManager(provider, leasing.Options{TTL: heldTTL, RenewCadence: heldTTL * 6 / 100})
	if err != nil {
		b.Fatal(err)
	}
	all := acquireAll(b, m, leases)
	b.ReportMetric(float64(size())/1e6, "MB-begin")
	time.Sleep(half)
	b.ReportMetric(float64(size())/1e6, "MB-half")
	time.Sleep(half)
	b.ReportMetric(float64(size())/1e6, "MB-end")
	giveUp(b, m, all)
}

func hold(b *testing.B, provider leasing.Provider) {
	meters := meters()["metrics=on"]
	memory := meter.Heap()
	m, err := leasing.NewManager(provider, leasing.Options{MeterProvider: meters, TTL: heldTTL})
	if err != nil {
		b.Fatal(err)
	}
	leases := acquireAll(b, m, heldLeases)
	b.ReportMetric((meter.Heap()-memory)/heldLeases, "B/lease")

	cpu := meter.CPU()
	time.Sleep(heldFor)
	b.ReportMetric((meter.CPU() - cpu).Seconds(), "cpu-s/min")
	b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
	giveUp(b, m, leases)
}

// acquireAll acquires n leases.
func acquireAll(b *testing.B, m *leasing.Manager, n int) []*leasing.Lease {
	leases := make([]*leasing.Lease, n)
	if err := meter.ForEach(n, func(i int) (err error) {
		leases[i], err = m.TryAcquire(context.Background(), fmt.Sprintf("bench/held/%d", i))
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return leases
}

// giveUp reports the renewals and losses of the leases, releases the leases, and closes the manager.
func giveUp(b *testing.B, m *leasing.Manager, leases []*leasing.Lease) {
	renewals := 0
	for _, l := range leases {
		renewals += l.Renewals()
	}
	b.ReportMetric(float64(renewals)/float64(len(leases)), "renewals/lease")
	b.ReportMetric(float64(m.Health(b.Context()).Lost), "lost")
	_ = meter.ForEach(len(leases), func(i int) error {
		_ = leases[i].Release(context.Background())
		return nil
	})
	if err := m.Close(b.Context()); err != nil {
		b.Error(err)
	}
}
