package redislease_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func Example() {
	ctx := context.Background()
	provider, err := redislease.OpenURL(ctx, os.Getenv("REDIS_URL")) // redis://:password@host:6379/0
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)

	err = manager.Do(ctx, "jobs/daily-maintenance", func(ctx context.Context, lease *leasing.Lease) error {
		fmt.Println("working under", lease.Name())
		return nil
	})
	fmt.Println(err)
}

// Open also accepts a client that the application already has, or one with options that a URL can't set.
func ExampleOpen() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{
		Addr:                  os.Getenv("REDIS_ADDR"),
		ContextTimeoutEnabled: true,
		MaxRetries:            -1, // package leasing retries
		DialerRetries:         1,
	})
	defer client.Close()
	provider, err := redislease.Open(ctx, redislease.Options{Client: client, Prefix: "billing", Retention: 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()
	fmt.Println(provider.Ping(ctx))
}

// Redlock uses three independent servers, which are new here.
func ExampleOpen_redlock() {
	ctx := context.Background()
	provider, err := redislease.Open(ctx, redislease.Options{
		URL:  "redis://" + os.Getenv("REDIS_ADDRS"), // host1:6379,host2:6379,host3:6379
		Mode: redislease.Redlock,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()
	if err := provider.Bootstrap(ctx); err != nil { // by an operator, the first time only
		log.Fatal(err)
	}
	fmt.Println(provider.Ping(ctx))
}

// Options can also be read from JSON, and never print a password.
func ExampleOptions() {
	var options redislease.Options
	err := json.Unmarshal([]byte(`{
		"url": "rediss://app:secret@cache.example.org:6380",
		"mode": "cluster",
		"prefix": "billing",
		"retention": "72h"
	}`), &options)
	fmt.Println(options, err)
	// Output:
	// redislease.Options{URL: (not shown), Mode: "cluster", Prefix: "billing", Retention: 72h0m0s} <nil>
}

// TestExamplesRun starts the servers that the examples above need.
func TestExamplesRun(t *testing.T) {
	servers := redistest.StartMany(t, 3, redistest.Options{})
	t.Setenv("REDIS_URL", servers[0].URL())
	t.Setenv("REDIS_ADDR", servers[0].Addr())
	t.Setenv("REDIS_ADDRS", strings.Join([]string{servers[0].Addr(), servers[1].Addr(), servers[2].Addr()}, ","))
	require.Equal(t, "working under jobs/daily-maintenance\n<nil>\n", outputOf(t, Example))
	require.Equal(t, "<nil>\n", outputOf(t, ExampleOpen))
	require.Equal(t, "<nil>\n", outputOf(t, ExampleOpen_redlock))
}

func outputOf(t *testing.T, example func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	example()
	require.NoError(t, w.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}
