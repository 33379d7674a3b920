package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// workload is one of the things that are measured.
type workload struct {
	name  string
	title string
	// columns are the metrics in the order in which they are shown; the first
	// is the headline, to which ratios refer.
	columns []column
	takes   func(lockers.Peer) bool
	floor   string // the peer that none can beat; "" where there is none
	run     func(context.Context, *site) (metrics, error)
	full    []variant
	quick   []variant // for tests of this program
}

// column is a metric as it is shown.
type column struct {
	key, head string
	decimals  int
	worst     bool // over the rounds the largest counts, not the median
}

func expires(p lockers.Peer) bool { return p.Expires }
func renews(p lockers.Peer) bool  { return p.Renews }
func waits(p lockers.Peer) bool   { return p.Waits }

// The TTL where nothing is meant to expire.
const long = 30 * time.Second

var workloads = []workload{
	{
		name: "cycles", title: "acquire and release of distinct names", takes: expires, floor: "raw-script", run: cycles,
		columns: []column{
			{key: "rate", head: "cycles/s"},
			{key: "commands", head: "commands/cycle", decimals: 2},
			{key: "allocs", head: "allocs/cycle", decimals: 1},
			{key: "clientCPU", head: "client us/cycle", decimals: 1},
			{key: "serverCPU", head: "server us/cycle", decimals: 1},
			{key: "failed", head: "failed, worst", worst: true},
		},
		full: []variant{
			{Label: "1 goroutine", Count: 1, TTL: long, Settle: time.Second, For: 3 * time.Second},
			{Label: "64 goroutines", Count: 64, TTL: long, Settle: time.Second, For: 3 * time.Second},
		},
		quick: []variant{{Label: "4 goroutines", Count: 4, TTL: long, Settle: 50 * time.Millisecond, For: 100 * time.Millisecond}},
	},
	{
		name: "held", title: "leases held and renewed", takes: renews, run: held,
		columns: []column{
			{key: "clientCPU", head: "client CPU-s/min", decimals: 2},
			{key: "serverCPU", head: "server CPU-s/min", decimals: 2},
			{key: "commands", head: "commands/s"},
			{key: "heap", head: "heap B/lease"},
			{key: "rss", head: "RSS B/lease"},
			{key: "goroutines", head: "goroutines"},
			{key: "lost", head: "lost, worst", worst: true},
		},
		full: []variant{
			{Label: "10,000 leases, TTL 30 s, for 60 s", Count: 10_000, TTL: long, For: time.Minute},
			{Label: "100,000 leases, TTL 30 s, for 60 s", Count: 100_000, TTL: long, For: time.Minute},
		},
		quick: []variant{{Label: "100 leases", Count: 100, TTL: 1500 * time.Millisecond, For: time.Second}},
	},
	{
		name: "handoff", title: "release to next holder", takes: handsOff, floor: "publish", run: handoff,
		columns: []column{
			{key: "p50", head: "p50 ms", decimals: 2},
			{key: "p99", head: "p99 ms", decimals: 2},
			{key: "commands", head: "commands/hand-off", decimals: 1},
		},
		full: []variant{
			{Label: "1 waiter, one client", Count: 1, TTL: long, Settle: time.Second, Samples: 150},
			{Label: "1 waiter, separate clients", Count: 1, Separate: true, TTL: long, Settle: time.Second, Samples: 150},
			{Label: "100 waiters, one client", Count: 100, TTL: long, Settle: 2 * time.Second, Samples: 150},
			{Label: "100 waiters, separate clients", Count: 100, Separate: true, TTL: long, Settle: 2 * time.Second, Samples: 150},
		},
		quick: []variant{
			{Label: "2 waiters, one client", Count: 2, TTL: long, Settle: 50 * time.Millisecond, Samples: 3},
			{Label: "2 waiters, separate clients", Count: 2, Separate: true, TTL: long, Settle: 50 * time.Millisecond, Samples: 3},
		},
	},
	{
		name: "idle", title: "waiting while the holder renews", run: idle,
		takes: func(p lockers.Peer) bool { return p.Waits && p.Renews },
		columns: []column{
			{key: "commands", head: "commands/s", decimals: 1},
			{key: "clientCPU", head: "client CPU-s/min", decimals: 3},
			{key: "serverCPU", head: "server CPU-s/min", decimals: 3},
		},
		full:  []variant{{Label: "100 waiters, one client", Count: 100, TTL: long, Settle: 3 * time.Second, For: 30 * time.Second}},
		quick: []variant{{Label: "4 waiters, one client", Count: 4, TTL: long, Settle: 50 * time.Millisecond, For: 300 * time.Millisecond}},
	},
	{
		name: "takeover", title: "killed holder to next holder, beyond the end of the lock", run: takeover,
		takes: func(p lockers.Peer) bool { return p.Waits && p.Renews },
		columns: []column{
			{key: "p50", head: "median ms", decimals: 1},
			{key: "worst", head: "worst ms", decimals: 1, worst: true},
			{key: "stuck", head: "stuck, worst", worst: true},
		},
		full:  []variant{{Label: "TTL 2 s", TTL: 2 * time.Second, Samples: 10}},
		quick: []variant{{Label: "TTL 1 s", TTL: time.Second, Samples: 1}},
	},
	{
		name: "contended", title: "goroutines fight for one name, 1 ms each", takes: waits, floor: "queue", run: contended,
		columns: []column{
			{key: "handoffs", head: "hand-offs/s"},
			{key: "sections", head: "sections/s"},
			{key: "commands", head: "commands/hand-off", decimals: 1},
			{key: "fairness", head: "Jain", decimals: 2},
			{key: "starved", head: "starved, worst", worst: true},
			{key: "clientCPU", head: "client us/section"},
			{key: "serverCPU", head: "server us/section"},
		},
		full: []variant{
			{Label: "64 goroutines, one client", Count: 64, TTL: long, Settle: time.Second, For: 5 * time.Second},
			{Label: "64 goroutines, separate clients", Count: 64, Separate: true, TTL: long, Settle: 2 * time.Second, For: 5 * time.Second},
		},
		quick: []variant{
			{Label: "8 goroutines, one client", Count: 8, TTL: long, Settle: 50 * time.Millisecond, For: 300 * time.Millisecond},
			{Label: "8 goroutines, separate clients", Count: 8, Separate: true, TTL: long, Settle: 50 * time.Millisecond, For: 300 * time.Millisecond},
		},
	},
}

// handsOff: the wake-up is no lock, but the floor of a hand-off.
func handsOff(p lockers.Peer) bool {
	return p.Waits && p.Servers > 0 || p.Name == publish.Name
}

// peers are all that can be measured.
var peers = append(lockers.All, publish)

func (w workload) variants(quick bool) []variant {
	if quick {
		return w.quick
	}
	return w.full
}

func workloadName(w workload) string { return w.name }
func peerName(p lockers.Peer) string { return p.Name }

func workloadByName(name string) (workload, error) {
	return byName("workload", name, workloads, workloadName)
}

func peerByName(name string) (lockers.Peer, error) {
	return byName("peer", name, peers, peerName)
}

func byName[T any](kind, name string, all []T, nameOf func(T) string) (T, error) {
	for _, one := range all {
		if nameOf(one) == name {
			return one, nil
		}
	}
	var none T
	return none, fmt.Errorf("there is no %s %q; there are: %s", kind, name, strings.Join(namesOf(all, nameOf), ", "))
}

func namesOf[T any](all []T, nameOf func(T) string) []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = nameOf(all[i])
	}
	return names
}
