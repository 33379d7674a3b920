package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// threeServers is the variable that names three independent servers.
const threeServers = "LEASING_TEST_REDLOCK"

func main() {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(childMain(text))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := parentMain(ctx, os.Args[1:], shortSize, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// parentMain measures the workloads that the flags select. The table goes to out,
// progress and errors to side.
func parentMain(ctx context.Context, args []string, size size, out, side io.Writer) int {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(side)
	workloadNames := flags.String("workloads", "", "which, or how they begin, with commas between: "+names(workloads, workload.String))
	peerNames := flags.String("peers", "", "which, with commas between; on Redis: "+names(lockers.All, peerName))
	backend := flags.String("backend", "redis", "redis, postgres, sqlite, or sqlite-normal without a sync for each change")
	isLong := flags.Bool("long", false, "measure longer and more often: more than an hour")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *isLong {
		size = longSize
	}
	on, known := lockers.Backends[*backend]
	p := plan{backend: *backend, url: os.Getenv(on.Variable), size: size, results: map[string][]metrics{}}
	var err error
	if p.workloads, err = pick(workloadsOn(*backend), *workloadNames, workload.String); err == nil {
		p.peers, err = pick(on.Peers, *peerNames, peerName)
	}
	switch {
	case !known:
		err = fmt.Errorf("there is no backend %q", *backend)
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("there is no argument %q", flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(side, "peers:", err)
		return 2
	}
	if on.Variable == "" {
		if p.url, err = os.MkdirTemp("", "leasing-peers"); err != nil {
			fmt.Fprintln(side, "peers:", err)
			return 1
		}
		defer func() { _ = os.RemoveAll(p.url) }()
	}
	start := time.Now()
	version, err := p.serverVersion(ctx)
	if err == nil {
		p.measure(ctx, side)
		err = p.writeTable(out, version, time.Since(start))
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		fmt.Fprintln(side, "peers:", err)
	}
	if err != nil || !p.complete() {
		return 1
	}
	return 0
}

// complete reports whether every measurement succeeded in at least one round.
func (p *plan) complete() bool {
	for _, w := range p.workloads {
		for _, peer := range w.peers(p.peers) {
			if len(p.results[key(w, peer)]) == 0 {
				return false
			}
		}
	}
	return true
}

func peerName(p lockers.Peer) string { return p.Name }

// pick returns the items whose names begin with one of the given prefixes; without prefixes it returns all.
func pick[T any](all []T, given string, name func(T) string) (picked []T, err error) {
	for begin := range strings.SplitSeq(given, ",") {
		before := len(picked)
		for _, one := range all {
			if strings.HasPrefix(name(one), begin) {
				picked = append(picked, one)
			}
		}
		if len(picked) == before {
			return nil, fmt.Errorf("nothing is named %q; there are: %s", begin, names(all, name))
		}
	}
	return picked, nil
}

func names[T any](all []T, name func(T) string) string {
	var names []string
	for _, one := range all {
		names = append(names, name(one))
	}
	return strings.Join(names, ",")
}

// plan lists the workloads and peers to measure, and collects the results.
type plan struct {
	backend   string
	url       string // the backend's URL, or a folder for its files
	workloads []workload
	peers     []lockers.Peer
	size      size
	results   map[string][]metrics // by key, one for each round
	failures  []string
}

func key(w workload, p lockers.Peer) string { return w.name + ", " + p.Name }

// measure runs all rounds, but stops when ctx ends.
func (p *plan) measure(ctx context.Context, side io.Writer) {
	for round := range p.size.Rounds {
		for _, w := range p.workloads {
			if w.slow && round >= p.size.SlowRounds {
				continue
			}
			for _, peer := range roundOrder(w.peers(p.peers), round) {
				start := time.Now()
				m, err := runInProcess(ctx, task{Backend: p.backend, Workload: w.name, Peer: peer.Name, URL: w.url(p.url), Size: p.size})
				if ctx.Err() != nil {
					return
				}
				fmt.Fprintf(side, "round %d of %d: %s: %.1f s\n", round+1, p.size.Rounds, key(w, peer), time.Since(start).Seconds())
				if err != nil {
					p.failures = append(p.failures, fmt.Sprintf("%s, round %d: %v", key(w, peer), round+1, err))
					continue
				}
				p.results[key(w, peer)] = append(p.results[key(w, peer)], m)
			}
		}
	}
}

// roundOrder orders the peers of a round. The peers take turns to begin, and every second round reverses
// the others, so no peer always comes after the same peer.
func roundOrder(peers []lockers.Peer, round int) []lockers.Peer {
	first := round % max(len(peers), 1)
	turned := slices.Concat(peers[first:], peers[:first])
	if round%2 == 1 {
		slices.Reverse(turned[min(1, len(turned)):])
	}
	return turned
}

// serverVersion returns the backend's version, after a check that each workload has a URL.
func (p *plan) serverVersion(ctx context.Context) (version string, err error) {
	for _, w := range p.workloads {
		if w.url(p.url) == "" {
			variable := lockers.Backends[p.backend].Variable
			if w.redlock {
				variable = threeServers
			}
			return "", fmt.Errorf("%s must be a server's URL; `make bench-peers` starts what is needed", variable)
		}
	}
	store, err := lockers.Backends[p.backend].Open(p.workloads[0].url(p.url))
	if err != nil {
		return "", err
	}
	defer func() { err = cmp.Or(err, store.Close()) }()
	return store.Version(ctx)
}
