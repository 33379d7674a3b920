package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// workload is a kind of measurement.
type workload struct {
	name    string
	redlock bool   // runs on three independent servers
	on      string // runs on the backends whose names begin with this prefix
	waits   bool   // clients wait for names that others hold
	expires bool   // peers whose locks end with their connection are left out
	slow    bool   // measured in fewer rounds
	local   bool   // an in-memory lock is measured beside the libraries
	run     func(context.Context, *bench) (metrics, error)
	rows    []row // of the table
}

// row is a row of the table, for one metric.
type row struct {
	title  string
	metric string
	less   bool // a lower figure is better
	worst  bool // the largest figure of the rounds is shown, not the median
}

// metrics are the results of a measurement, by name.
type metrics map[string]float64

// size sets the rounds, the times and the counts of the measurements.
type size struct {
	Rounds, SlowRounds int
	Settle, Window     time.Duration // the time before a measurement, and its length
	IdleWindow         time.Duration
	HeldWindow         time.Duration
	Handoffs           time.Duration // the window for hand-offs
	Kills              int
	Leases             int
	Processes          int           // the number of processes that wait for a name
	TTL                time.Duration // of leases that are not meant to expire
	KillTTL            time.Duration // of the lease of a holder that is killed
}

var (
	shortSize = size{
		Rounds: 3, SlowRounds: 1, Settle: 500 * time.Millisecond, Window: 2 * time.Second, IdleWindow: 20 * time.Second, HeldWindow: 24 * time.Second,
		Handoffs: 4 * time.Second, Kills: 5, Leases: 100_000, Processes: 100, TTL: 30 * time.Second, KillTTL: 2 * time.Second,
	}
	longSize = size{
		Rounds: 5, SlowRounds: 5, Settle: time.Second, Window: 5 * time.Second, IdleWindow: 30 * time.Second, HeldWindow: time.Minute,
		Handoffs: 15 * time.Second, Kills: 10, Leases: 100_000, Processes: 100, TTL: 30 * time.Second, KillTTL: 2 * time.Second,
	}
)

var workloads = []workload{
	{name: "cycles-1", run: cycles(1), rows: []row{
		{title: "cycles/s, 1 goroutine", metric: "rate"},
	}},
	{name: "cycles-8", on: "sqlite", run: cycles(8), rows: []row{
		{title: "cycles/s, 8 goroutines", metric: "rate"},
	}},
	{name: "cycles-64", run: cycles(64), rows: perCycle("cycles/s, 64 goroutines")},
	{name: "redlock-64", redlock: true, on: "redis", run: cycles(64), rows: perCycle("cycles/s, Redlock of 3, 64 goroutines")},
	{name: "handoff-1", waits: true, run: handoff(1, false), rows: []row{
		{title: "hand-off p50, ms: 1 waiter", metric: "p50", less: true},
	}},
	{name: "handoff-100", waits: true, run: handoff(100, false), rows: []row{
		{title: "  100 waiters of one client", metric: "p50", less: true},
	}},
	{name: "handoff-clients", waits: true, run: handoff(100, true), rows: []row{
		{title: "  100 clients", metric: "p50", less: true},
	}},
	{name: "handoff-processes", on: "sqlite", waits: true, run: handoffProcesses, rows: []row{
		{title: "  another process", metric: "p50", less: true},
	}},
	{name: "contended", local: true, waits: true, run: contended(64), rows: []row{
		{title: "64 clients, one name, 1 ms: hand-offs/s", metric: "handoffs"},
		{title: "  Jain's fairness index", metric: "fairness"},
		{title: "  commands per hand-off", metric: "commands", less: true},
	}},
	{name: "held", slow: true, run: held, rows: []row{
		{title: "leases held: client CPU, s per minute", metric: "clientCPU", less: true},
		{title: "  server CPU, s per minute", metric: "serverCPU", less: true},
		{title: "  client RSS, MB", metric: "rss", less: true},
		{title: "  client heap, bytes per lease", metric: "heap", less: true},
		{title: "  kept by the server, MB", metric: "memory", less: true},
		{title: "  log written, MB per minute", metric: "log", less: true},
		{title: "  goroutines", metric: "goroutines", less: true},
		{title: "  lost, worst", metric: "lost", less: true, worst: true},
	}},
	{name: "idle", slow: true, on: "redis", run: idle, rows: []row{
		{title: "100 idle waiters of one client: commands/s", metric: "commands", less: true},
		{title: "  client CPU, s per minute", metric: "clientCPU", less: true},
	}},
	{name: "idle-processes", slow: true, on: "sqlite", waits: true, run: idleProcesses, rows: []row{
		{title: "100 idle waiting processes: CPU, % of a core", metric: "idle", less: true},
		{title: "  while one is busy with other names", metric: "busy", less: true},
	}},
	{name: "takeover", slow: true, waits: true, expires: true, run: takeover, rows: []row{
		{title: "take-over after a kill, beyond the TTL, ms: median", metric: "p50", less: true},
		{title: "  worst", metric: "worst", less: true, worst: true},
		{title: "  stuck, worst", metric: "stuck", less: true, worst: true},
	}},
}

// perCycle returns the rows of cycles: their rate, and the costs of each cycle.
func perCycle(title string) []row {
	return []row{
		{title: title, metric: "rate"},
		{title: "  client CPU, us per cycle", metric: "clientCPU", less: true},
		{title: "  server CPU, us per cycle", metric: "serverCPU", less: true},
		{title: "  allocations per cycle", metric: "allocs", less: true},
		{title: "  commands per cycle", metric: "commands", less: true},
		{title: "  failed, worst", metric: "failed", less: true, worst: true},
	}
}

func (w workload) String() string { return w.name }

// peers returns the given peers that the workload measures.
func (w workload) peers(given []lockers.Peer) (peers []lockers.Peer) {
	for _, peer := range given {
		if w.waits && peer.TryOnly || (!w.waits || w.expires) && peer.WaitOnly {
			continue
		}
		if peer.Local && w.local || !peer.Local && (peer.Redlock || !w.redlock) {
			peers = append(peers, peer)
		}
	}
	return peers
}

// workloadsOn returns the workloads that are measured on a backend.
func workloadsOn(backend string) (these []workload) {
	for _, w := range workloads {
		if strings.HasPrefix(backend, w.on) {
			these = append(these, w)
		}
	}
	return these
}

// url returns the servers' URL, given the backend's.
func (w workload) url(backend string) string {
	if w.redlock {
		return os.Getenv(threeServers)
	}
	return backend
}
