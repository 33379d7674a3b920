package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/bench/internal/meter"
	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// TestMain is also the main function of the child processes, which run this program with a task.
func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(childMain(text))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // for the children: go.dev/doc/articles/race_detector
	os.Exit(m.Run())
}

// tiny is so small that the figures mean nothing.
var tiny = size{
	Rounds: 1, SlowRounds: 1, Settle: 200 * time.Millisecond, Window: time.Second, IdleWindow: 300 * time.Millisecond,
	HeldWindow: time.Second, Handoffs: 2 * time.Second, Kills: 1, Leases: 100, Processes: 3, TTL: 5 * time.Second, KillTTL: time.Second,
}

const oneServer = "LEASING_TEST_REDIS"

func needRedis(t *testing.T) {
	for _, variable := range []string{oneServer, threeServers} {
		servertest.Require(t, variable)
	}
}

func TestTinyRunRedis(t *testing.T) {
	t.Parallel()
	needRedis(t)
	tinyRun(t, "redis", "-peers", "leasing,redislock,mutex")
}

func TestTinyRunPostgres(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	servertest.Require(t, lockers.Backends["postgres"].Variable)
	tinyRun(t, "postgres", "-backend", "postgres")
}

func TestTinyRunSqlite(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	tinyRun(t, "sqlite", "-backend", "sqlite")
}

// tinyRun runs every workload of a backend for a moment.
func tinyRun(t *testing.T, backend string, args ...string) {
	var out, side bytes.Buffer
	status := parentMain(t.Context(), args, tiny, &out, &side)
	t.Log(out.String())
	require.Zero(t, status, "%s\n%s", out.String(), side.String())
	lines := strings.Split(out.String(), "\n")[3:]
	unknown := []string{"log"}
	if backend != "redis" { // commands are not counted on this backend, and 64 clients may still be connecting
		unknown = []string{"commands", "serverCPU", "fairness"}
	}
	for _, w := range workloadsOn(backend) {
		for _, r := range w.rows {
			figures, found := strings.CutPrefix(strings.TrimSpace(lines[0]), strings.TrimSpace(r.title))
			require.True(t, found, "%q is not of %q", lines[0], r.title)
			ours := strings.Fields(figures)[0]
			if !slices.Contains(unknown, r.metric) {
				assert.NotEqual(t, absent, ours, "%s: %s", w.name, r.title)
			}
			if r.metric == "lost" {
				assert.Equal(t, "0", ours)
			}
			lines = lines[1:]
		}
	}
}

func TestFailureIsReportedRedis(t *testing.T) {
	needRedis(t)
	var out, side bytes.Buffer
	p := plan{backend: "redis", workloads: []workload{{name: "none", rows: workloads[0].rows}}, peers: lockers.All[:1], size: tiny, results: map[string][]metrics{}}
	p.measure(t.Context(), &side)
	require.NoError(t, p.writeTable(&out, "7", time.Second))
	assert.False(t, p.complete())
	assert.Contains(t, out.String(), `FAILED none, leasing, round 1: there is no workload "none"`)
}

// contestOf runs a contest without a server.
func contestOf(t *testing.T, peer lockers.Peer, yields bool) (*contest, error) {
	t.Helper()
	c := &contest{bench: &bench{task: task{Size: tiny}, peer: peer, store: lockers.Servers{}}, yields: yields, hold: func() time.Duration { return time.Millisecond }}
	_, err := c.run(t.Context(), 100*time.Millisecond, 8, false)
	return c, err
}

// TestContestSeesTwoInside: the measurement of a lock that admits two holders fails.
func TestContestSeesTwoInside(t *testing.T) {
	for _, yields := range []bool{true, false} {
		_, err := contestOf(t, lockers.Peer{Name: "open", Open: newOpenLocker}, yields)
		assert.ErrorIs(t, err, errTwo)
	}
}

func TestContestCounts(t *testing.T) {
	mutex := lockers.All[len(lockers.All)-1]
	require.Equal(t, "mutex", mutex.Name)
	for _, yields := range []bool{true, false} {
		c, err := contestOf(t, mutex, yields)
		require.NoError(t, err)
		sections := int64(0)
		for _, share := range c.sections {
			sections += share
		}
		assert.Positive(t, sections)
		assert.LessOrEqual(t, int64(len(c.handoffs)), sections)
		assert.LessOrEqual(t, sections, int64(300), "a millisecond each")
		if yields {
			assert.Len(t, c.handoffs, int(sections), "each was a hand-off")
			assert.Less(t, median(c.handoffs), float64(50*time.Millisecond))
		}
	}
}

// TestIdleSeesTwoInside: the idle workload also fails for a lock that admits two holders.
func TestIdleSeesTwoInside(t *testing.T) {
	b := &bench{task: task{Size: tiny}, peer: lockers.Peer{Name: "open", Open: newOpenLocker}, store: lockers.Servers{}}
	_, err := idle(t.Context(), b)
	assert.ErrorIs(t, err, errTwo)
}

// newOpenLocker opens a lock that admits every client.
func newOpenLocker(context.Context, lockers.Config) (lockers.Locker, error) { return openLocker{}, nil }

type openLocker struct{ lockers.Locker }

func (openLocker) Try(context.Context, string) (lockers.Lock, error)     { return openLocker{}, nil }
func (openLocker) Acquire(context.Context, string) (lockers.Lock, error) { return openLocker{}, nil }
func (openLocker) Keep()                                                 {}
func (openLocker) Kept() bool                                            { return true }
func (openLocker) Release(context.Context) error                         { return nil }
func (openLocker) Close() error                                          { return nil }

func TestMissingServerIsNamed(t *testing.T) {
	t.Setenv(oneServer, "")
	t.Setenv(threeServers, "")
	for workload, variable := range map[string]string{"cycles": oneServer, "redlock": threeServers} {
		var out, side bytes.Buffer
		assert.Equal(t, 1, parentMain(t.Context(), []string{"-workloads", workload}, tiny, &out, &side))
		assert.Contains(t, side.String(), variable)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for want, args := range map[string][]string{
		`"argument"`: {"argument"}, "-nothing": {"-nothing"}, `"sleep"; there are: cycles-1,`: {"-workloads", "cycles,sleep"}, `"chubby"`: {"-peers", "chubby"},
	} {
		var out, side bytes.Buffer
		assert.Equal(t, 2, parentMain(t.Context(), args, tiny, &out, &side), args)
		assert.Contains(t, side.String(), want)
	}
}

func TestInterruptedRunShowsWhatItHasRedis(t *testing.T) {
	needRedis(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := plan{workloads: workloads[:1], peers: lockers.All, size: tiny, results: map[string][]metrics{"cycles-1, leasing": {{"rate": 7}}}}
	cancel()
	var out, side bytes.Buffer
	p.measure(ctx, &side)
	require.NoError(t, p.writeTable(&out, "7", time.Second))
	assert.Regexp(t, `cycles/s, 1 goroutine +7\.00 +-`, out.String())
	assert.Equal(t, 1, parentMain(ctx, nil, tiny, &out, &side))
	assert.Contains(t, side.String(), context.Canceled.Error())
}

func TestTable(t *testing.T) {
	p := plan{
		workloads: []workload{{name: "w", rows: []row{
			{title: "more", metric: "a"}, {title: "less", metric: "b", less: true}, {title: "worst", metric: "c", less: true, worst: true}, {title: "nobody", metric: "d"},
		}}},
		peers: lockers.All, size: tiny,
		results: map[string][]metrics{
			"w, leasing":   {{"a": 900, "b": 3, "c": 0}, {"a": 1000, "b": 5, "c": 2}, {"a": 8000, "b": 1, "c": 1}},
			"w, redislock": {{"a": 450, "b": 30}},
			"w, redsync":   {{"a": 2000, "b": 12.345, "c": 0}},
			"w, mutex":     {{"a": 90000, "b": 0.5}},
		},
		failures: []string{"w, rueidislock: out of luck"},
	}
	var out strings.Builder
	require.NoError(t, p.writeTable(&out, "Redis 7.0", time.Minute))
	lines := strings.Split(out.String(), "\n")
	assert.Contains(t, lines[0], "Redis 7.0")
	assert.Equal(t, []string{"leasing", "redislock", "redsync", "rueidislock", "mutex", "ratio"}, strings.Fields(lines[2])[:6])
	for i, want := range []string{
		"more 1,000 450 2,000 - 90,000 0.50 more", // a mutex is not a peer
		"less 3.00 30.0 12.3 - 0.50 0.24 less",
		"worst 2.00 - 0 - - - less", // no ratio to 0
		"nobody - - - - - - more",
	} {
		assert.Equal(t, strings.Fields(want), strings.Fields(lines[3+i]))
	}
	assert.Equal(t, "FAILED w, rueidislock: out of luck", lines[7])
}

// TestPeersTakeTurns: a round measures every peer once, peers begin equally often, and no peer comes after the same peer in
// every round.
func TestPeersTakeTurns(t *testing.T) {
	for n := 2; n <= len(lockers.All); n++ {
		peers := lockers.All[:n]
		before, firsts := map[string]map[string]bool{}, map[string]int{} // the peers that came just before each peer ("" for none), and the number of rounds that it began
		for round := range 2 * n {
			turn := roundOrder(peers, round)
			assert.ElementsMatch(t, strings.Split(names(peers, peerName), ","), strings.Split(names(turn, peerName), ","))
			firsts[turn[0].Name]++
			last := ""
			for _, peer := range turn {
				if before[peer.Name] == nil {
					before[peer.Name] = map[string]bool{}
				}
				before[peer.Name][last] = true
				last = peer.Name
			}
		}
		for _, peer := range peers {
			assert.Equal(t, 2, firsts[peer.Name], "%s of %d", peer.Name, n)
			assert.Greater(t, len(before[peer.Name]), 1, "%s of %d always comes after %v", peer.Name, n, before[peer.Name])
		}
	}
	assert.Empty(t, roundOrder(nil, 1))
}

func TestWorkloadsHaveTheirPeers(t *testing.T) {
	for _, w := range workloadsOn("redis") {
		peers := names(w.peers(lockers.All), peerName)
		want := "leasing,redislock,redsync,rueidislock"
		switch {
		case w.redlock:
			want = "leasing,redsync"
		case w.local:
			want += ",mutex"
		}
		assert.Equal(t, want, peers, w.name)
	}
}

func TestMedian(t *testing.T) {
	assert.Equal(t, 2.5, median([]float64{4, 1, 3, 2}))
	assert.Equal(t, float64(2*time.Second), median([]time.Duration{3 * time.Second, time.Second, 2 * time.Second}))
	assert.True(t, math.IsNaN(median([]int64{})))
	values := []int64{3, 1, 2}
	median(values)
	assert.Equal(t, []int64{3, 1, 2}, values)
}

// TestJain: the index is between 1/n and 1, and the same in any unit.
func TestJain(t *testing.T) {
	assert.Equal(t, 1.0, jain([]int64{5, 5, 5, 5}))
	assert.Equal(t, 0.25, jain([]int64{12, 0, 0, 0}))
	assert.InDelta(t, 36.0/(3*14), jain([]int64{1, 2, 3}), 1e-12)
	assert.True(t, math.IsNaN(jain([]int64{0, 0})))
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.Int64Range(1, 1000), 1, 64).Draw(t, "shares")
		tenfold := make([]int64, len(shares))
		for i, share := range shares {
			tenfold[i] = 10 * share
		}
		index := jain(shares)
		if index > 1+1e-9 || index < 1/float64(len(shares))-1e-9 || math.Abs(jain(tenfold)-index) > 1e-9 {
			t.Fatalf("%v, in another unit %v, for %d shares", index, jain(tenfold), len(shares))
		}
	})
}

func TestUsage(t *testing.T) {
	start := time.Now()
	from := usage{at: start, clientCPU: time.Second, serverCPU: 2 * time.Second, commands: 10, mallocs: 100}
	to := usage{at: start.Add(30 * time.Second), clientCPU: 4 * time.Second, serverCPU: 3 * time.Second, commands: 70, mallocs: 400}
	used := to.since(from)
	assert.Equal(t, metrics{"commands": 2, "clientCPU": 6, "serverCPU": 2, "log": 0}, used.perMinute())
	assert.EqualValues(t, 300, used.mallocs)
}

// TestHeapSeesLiveObjects: live objects are counted, and garbage is not.
func TestHeapSeesLiveObjects(t *testing.T) {
	const size = 64 << 20
	before, resident, cpu := meter.Heap(), rss(), meter.CPU()
	live := make([]byte, size)
	for i := range live {
		live[i] = byte(i)
	}
	assert.InDelta(t, size, meter.Heap()-before, size/4)
	if resident != 0 {
		assert.Greater(t, rss()-resident, float64(size/2))
	}
	assert.Greater(t, meter.CPU(), cpu)
	runtime.KeepAlive(live)
	assert.InDelta(t, 0, meter.Heap()-before, size/4)
}
