// Package adapters_test runs each adapter in a program of its host.
package adapters_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/open"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

const (
	jobVariable = "LEASING_TEST_JOB" // in a process that a test starts
	ttl         = 3 * time.Second
	atMost      = 2 * time.Minute // on a very slow machine
)

// job is the job of a process that a test starts: to run a host, and to work until it is killed.
type job struct{ Host, URL, Folder string }

func TestMain(m *testing.M) {
	if text, is := os.LookupEnv(jobVariable); is {
		fmt.Println("ended:", work(text))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func work(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	ctx := context.Background()
	p, err := open.URL(ctx, j.URL, postgreslease.Opener(), sqlitelease.Opener(), redislease.Opener())
	if err != nil {
		return err
	}
	m, err := leasing.NewManager(p, leasing.Options{TTL: ttl})
	if err != nil {
		return err
	}
	fmt.Println("begun")
	return hosts[j.Host](ctx, m, j.Folder, func(ctx context.Context) {
		fmt.Println("working")
		<-ctx.Done()
	})
}

// process is a started process, with the lines that it prints.
type process struct {
	*servertest.Process
	lines <-chan string
}

func start(t *testing.T, j job) process {
	text, err := json.Marshal(j)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), jobVariable+"="+string(text)), os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p, err := servertest.StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			if line := scanner.Text(); line == "begun" || line == "working" || strings.HasPrefix(line, "ended") {
				lines <- line
			}
		}
	}()
	return process{p, lines}
}

func (p process) says(t *testing.T, line string) {
	t.Helper()
	select {
	case said := <-p.lines:
		require.Equal(t, line, said)
	case <-time.After(atMost):
		require.FailNow(t, "it says nothing")
	}
}

func TestTakeover_SQLite(t *testing.T) {
	t.Parallel()
	takeover(t, func(folder string) string { return "sqlite://" + folder + "/leases.db?create=true" })
}

func TestTakeover_Redis(t *testing.T) {
	t.Parallel()
	url := redisURL(t)
	takeover(t, func(string) string { return url })
}

// redisURL returns the URL of the test's Redis, with a prefix of its own.
func redisURL(t *testing.T) string {
	url := servertest.Require(t, "LEASING_TEST_REDIS")
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return fmt.Sprintf("%s%sprefix=adapters_%x&retention=1m", url, separator, rand.Uint64())
}

// takeover runs two processes of each host. One works, and is killed; only then does the other process begin to work.
func takeover(t *testing.T, url func(folder string) string) {
	for host := range hosts {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			j := job{Host: host, URL: url(folder), Folder: folder}
			first := start(t, j)
			first.says(t, "begun")
			first.says(t, "working")
			second := start(t, j)
			second.says(t, "begun")
			select {
			case line := <-second.lines:
				require.FailNow(t, "beside the first", line)
			case <-first.Done():
				require.FailNow(t, "the first has ended")
			case <-time.After(2 * ttl): // the first renews
			}
			first.Kill()
			second.says(t, "working")
		})
	}
}
