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

// The variables that name one server, and three independent ones.
const (
	oneServer    = "LEASING_TEST_REDIS"
	threeServers = "LEASING_TEST_REDLOCK"
)

func main() {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(childMain(text))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := parentMain(ctx, os.Args[1:], short, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// parentMain measures what the flags ask for. The table goes to out, the progress
// and what is wrong to side.
func parentMain(ctx context.Context, args []string, size size, out, side io.Writer) int {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(side)
	workloadNames := flags.String("workloads", "", "which, or how they begin, with commas between: "+names(workloads, workload.String))
	peerNames := flags.String("peers", "", "which, with commas between: "+names(lockers.All, peerName))
	isLong := flags.Bool("long", false, "measure longer and more often: more than an hour")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *isLong {
		size = long
	}
	p := plan{size: size, results: map[string][]metrics{}}
	var err error
	if p.workloads, err = pick(workloads, *workloadNames, workload.String); err == nil {
		p.peers, err = pick(lockers.All, *peerNames, peerName)
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("there is no argument %q", flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(side, "peers:", err)
		return 2
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

// complete says whether everything was measured in one round at least.
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

// pick returns those whose names begin with one of the given; none given are all.
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

// plan is what to measure, and what was found.
type plan struct {
	workloads []workload
	peers     []lockers.Peer
	size      size
	results   map[string][]metrics // by key, one for each round
	failures  []string
}

func key(w workload, p lockers.Peer) string { return w.name + ", " + p.Name }

// measure runs all rounds, or until ctx ends.
func (p *plan) measure(ctx context.Context, side io.Writer) {
	for round := range p.size.Rounds {
		for _, w := range p.workloads {
			if w.slow && round >= p.size.SlowRounds {
				continue
			}
			for _, peer := range inTurn(w.peers(p.peers), round) {
				start := time.Now()
				m, err := runApart(ctx, task{Workload: w.name, Peer: peer.Name, URL: w.url(), Size: p.size})
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

// inTurn orders the peers of a round. Each round begins with another of them, and
// every other round goes backwards: no peer always comes after the same one.
func inTurn(peers []lockers.Peer, round int) []lockers.Peer {
	first := round % max(len(peers), 1)
	turned := slices.Concat(peers[first:], peers[:first])
	if round%2 == 1 {
		slices.Reverse(turned)
	}
	return turned
}

// serverVersion is Redis's, after a look that all servers are there.
func (p *plan) serverVersion(ctx context.Context) (version string, err error) {
	for _, w := range p.workloads {
		if w.url() == "" {
			return "", fmt.Errorf("%s must be the URL of Redis; `make bench-peers` starts what is needed", w.variable())
		}
	}
	servers, err := lockers.OpenServers(p.workloads[0].url())
	if err != nil {
		return "", err
	}
	defer func() { err = cmp.Or(err, servers.Close()) }()
	return servers.Version(ctx)
}
