package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/bench/internal/meter"
	redislease "github.com/distributedleasing/leasing/providers/redis"
)

const (
	oneOffNames     = 1_000_000
	oneOffRetention = 5 * time.Minute
)

// BenchmarkOneOff uses each of a million names once on Redis, like a service with names of the form
// reply/<message>. It reports how many keys and how much of the server's memory each name leaves
// behind, and how many keys and how much memory remain after the retention. It needs a server of its own:
// LEASING_TEST_REDIS.
func BenchmarkOneOff(b *testing.B) {
	url := servertest.Require(b, "LEASING_TEST_REDIS")
	for b.Loop() {
		oneOff(b, url)
	}
}

func oneOff(b *testing.B, url string) {
	ctx := context.Background()
	provider, err := redislease.Open(ctx, redislease.Options{URL: url, Retention: oneOffRetention})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = provider.Close() }()
	options, err := redis.ParseURL(url)
	if err != nil {
		b.Fatal("LEASING_TEST_REDIS can't be read")
	}
	server := redis.NewClient(options)
	defer func() { _ = server.Close() }()
	keys, memory := usage(b, server)

	m := manager(b, provider, leasing.Options{MeterProvider: meters()["metrics=on"]})
	_ = meter.ForEach(oneOffNames, func(i int) error {
		cycle(b, m, fmt.Sprintf("reply/message/%07d", i))
		return nil
	})
	last := time.Now()
	after, used := usage(b, server)
	b.ReportMetric(float64(after-keys)/oneOffNames, "keys/name")
	b.ReportMetric(float64(used-memory)/oneOffNames, "server-B/name")

	for after > keys && time.Since(last) < oneOffRetention+time.Minute {
		time.Sleep(time.Second)
		after, used = usage(b, server)
	}
	b.ReportMetric(float64(after-keys), "keys-left")
	b.ReportMetric(float64(used-memory)/(1<<20), "server-MiB-left")
	b.ReportMetric(time.Since(last).Seconds(), "s-until-then")
}

// usage returns the number of keys and the memory of a server.
func usage(b *testing.B, server *redis.Client) (keys, memory int64) {
	b.Helper()
	ctx := context.Background()
	keys, err := server.DBSize(ctx).Result()
	if err != nil {
		b.Fatal(err)
	}
	info, err := server.Info(ctx, "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			memory, err = strconv.ParseInt(text, 10, 64)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	return keys, memory
}
