package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// TestMain is also the child processes: they are this program again.
func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(childMain(text))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // of the children: go.dev/doc/articles/race_detector
	os.Exit(m.Run())
}

func needRedis(t *testing.T) string {
	url := os.Getenv(variables[1])
	require.NotEmpty(t, url, "%s must be the URL of a Redis: run this with scripts/with-servers redis --", variables[1])
	return url
}

// TestQuickRunRedis runs every workload for a moment: this library beside a peer
// and the floors.
func TestQuickRunRedis(t *testing.T) {
	needRedis(t)
	file := filepath.Join(t.TempDir(), "report.json")
	var out, side bytes.Buffer
	status := parentMain(t.Context(), []string{
		"-quick", "-rounds", "1", "-peers", "leasing,redislock,raw-script,publish,queue", "-json", file,
	}, &out, &side)
	require.Zero(t, status, "%s\n%s", out.String(), side.String())

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(text, &r))
	measured := map[string]bool{}
	for _, row := range r.Results {
		measured[row.Workload] = true
		w, err := workloadByName(row.Workload)
		require.NoError(t, err)
		for _, c := range w.columns {
			value, ok := row.Metrics[c.key]
			if row.Peer == "leasing" {
				assert.True(t, ok, "%s has no %s", row.Workload, c.key)
			}
			if c.key == "lost" {
				assert.Zero(t, value, "%s lost leases", row.Peer)
			}
		}
	}
	for _, w := range workloads {
		assert.True(t, measured[w.name], w.name)
		assert.Contains(t, out.String(), w.title)
	}
	assert.NotEmpty(t, r.Machine.Redis)
}

// TestJobLeavesNothingBehindRedis: the keys of a job are gone, and no others.
func TestJobLeavesNothingBehindRedis(t *testing.T) {
	clients, err := lockers.Clients(needRedis(t), nil)
	require.NoError(t, err)
	defer clients[0].Close()
	count := func(pattern string) int {
		keys, err := clients[0].Keys(t.Context(), pattern).Result()
		require.NoError(t, err)
		return len(keys)
	}
	j := job{URL: needRedis(t), Prefix: newPrefix()}
	other := newPrefix()
	for i := range 3000 {
		require.NoError(t, clients[0].Set(t.Context(), "x:{"+j.Prefix+"}"+strings.Repeat("y", i%7)+string(rune('a'+i)), 1, 0).Err())
	}
	require.NoError(t, clients[0].Set(t.Context(), other, 1, 0).Err())
	assert.Equal(t, 3000, count("*"+j.Prefix+"*"))
	require.NoError(t, j.sweep(t.Context()))
	assert.Zero(t, count("*"+j.Prefix+"*"))
	assert.Equal(t, 1, count(other))
	require.NoError(t, clients[0].Del(t.Context(), other).Err())
}

// TestFailureIsReportedRedis: a peer that fails does not end the run, but shows
// in the table and in the exit code.
func TestFailureIsReportedRedis(t *testing.T) {
	needRedis(t)
	broken := lockers.Peer{Name: "broken", Servers: 1, Waits: true, Expires: true, Renews: true}
	p := plan{workloads: workloads[:1], peers: []lockers.Peer{broken, mustPeer(t, "raw-set")}, rounds: 1, quick: true}
	var err error
	p.urls, err = urls(p.servers())
	require.NoError(t, err)
	var out, side bytes.Buffer
	assert.ErrorIs(t, p.measure(t.Context(), "", &out, &side), errFailed)
	assert.Contains(t, out.String(), `FAILED broken: there is no peer "broken"`)
	assert.Regexp(t, `raw-set +[0-9,]+ `, out.String())
}

func TestFailureIsOneLine(t *testing.T) {
	o := failure(errors.Join(errors.New("first"), errors.New(strings.Repeat("x", 1000))))
	assert.True(t, strings.HasPrefix(o.Error, "first; xxx"))
	assert.Len(t, o.Error, 300)
	assert.Nil(t, o.Metrics)
}

func mustPeer(t *testing.T, name string) lockers.Peer {
	p, err := peerByName(name)
	require.NoError(t, err)
	return p
}

// TestContendedSeesTwoInside: a lock that lets two in is no result.
func TestContendedSeesTwoInside(t *testing.T) {
	a := &arena{name: "name"}
	a.inside.Store(1)
	assert.ErrorIs(t, a.hold(0), errTwo)
	s := &site{job: job{Variant: variant{Count: 4, Settle: long, For: long}}, peer: lockers.Peer{Name: "open", Open: openDoor}}
	_, err := contended(t.Context(), s)
	assert.ErrorIs(t, err, errTwo)
}

// TestIdleSeesTwoInside: as in TestContendedSeesTwoInside.
func TestIdleSeesTwoInside(t *testing.T) {
	s := &site{job: job{Variant: variant{Count: 2, For: long}}, peer: lockers.Peer{Name: "open", Open: openDoor}}
	_, err := idle(t.Context(), s)
	assert.ErrorIs(t, err, errTwo)
}

// TestHandoffSeesTwoInside: as in TestContendedSeesTwoInside.
func TestHandoffSeesTwoInside(t *testing.T) {
	s := &site{job: job{Variant: variant{Count: 2, Samples: 1}}, peer: lockers.Peer{Name: "open", Open: openDoor}}
	_, err := handoff(t.Context(), s)
	assert.ErrorContains(t, err, "two had the name")
}

// openDoor opens a lock that excludes nobody.
func openDoor(context.Context, lockers.Config) (lockers.Locker, error) { return door{}, nil }

type door struct{ lockers.Locker }

func (door) Try(context.Context, string) (lockers.Lock, error)     { return door{}, nil }
func (door) Acquire(context.Context, string) (lockers.Lock, error) { return door{}, nil }
func (door) Keep()                                                 {}
func (door) Kept() bool                                            { return true }
func (door) Release(context.Context) error                         { return nil }
func (door) Close() error                                          { return nil }

func TestMissingServerIsNamed(t *testing.T) {
	t.Setenv(variables[1], "")
	t.Setenv(variables[3], "")
	for variable, peer := range map[string]string{variables[1]: "redislock", variables[3]: "redsync-redlock"} {
		var out, side bytes.Buffer
		assert.Equal(t, 1, parentMain(t.Context(), []string{"-peers", peer}, &out, &side))
		assert.Contains(t, side.String(), variable)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"argument"}, {"-nothing"}} {
		var out, side bytes.Buffer
		assert.Equal(t, 2, parentMain(t.Context(), args, &out, &side), args)
		assert.NotEmpty(t, side.String())
	}
	var out, side bytes.Buffer
	assert.Equal(t, 1, parentMain(t.Context(), []string{"-workloads", "sleep"}, &out, &side))
	assert.Contains(t, side.String(), "contended")
}

// TestInterruptedRunShowsWhatItHas and ends.
func TestInterruptedRunShowsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, side bytes.Buffer
	assert.Equal(t, 1, parentMain(ctx, []string{"-quick", "-workloads", "contended", "-peers", "mutex"}, &out, &side))
	assert.Contains(t, out.String(), "mutex")
	assert.Contains(t, side.String(), context.Canceled.Error())
}
