package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// variables name the servers, by how many there are in the URL.
var variables = map[int]string{1: "LEASING_TEST_REDIS", 3: "LEASING_TEST_REDLOCK"}

func main() {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(childMain(text))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := parentMain(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// parentMain measures what the flags ask for. Tables go to out, the progress
// and what is wrong to side.
func parentMain(ctx context.Context, args []string, out, side io.Writer) int {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(side)
	someWorkloads := flags.String("workloads", "", "which, with commas between; default all: "+strings.Join(namesOf(workloads, workloadName), ","))
	somePeers := flags.String("peers", "", "which, with commas between; default all: "+strings.Join(namesOf(peers, peerName), ","))
	rounds := flags.Int("rounds", 3, "how often everything is measured")
	quick := flags.Bool("quick", false, "so short that the figures mean nothing: a test of this program")
	file := flags.String("json", "", "also write every round to this file; `make` runs this in bench/")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *rounds < 1 || flags.NArg() > 0 {
		fmt.Fprintln(side, "peers: at least one round, and no arguments beside the flags")
		return 2
	}
	p, err := newPlan(list(*someWorkloads), list(*somePeers))
	if err == nil {
		p.rounds, p.quick = *rounds, *quick
		p.urls, err = urls(p.servers())
	}
	if err == nil {
		err = p.measure(ctx, *file, out, side)
	}
	if err != nil {
		fmt.Fprintln(side, "peers:", err)
		return 1
	}
	return 0
}

// measure runs the plan and shows what it found.
func (p plan) measure(ctx context.Context, file string, out, side io.Writer) error {
	where, err := thisMachine(ctx, p)
	if err != nil {
		return err
	}
	r := newReport(p, p.runAll(ctx, side))
	r.Machine = where
	if err := r.writeTables(out); err != nil {
		return err
	}
	if err := r.writeFile(file); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.failed() {
		return errFailed
	}
	return nil
}

// runAll runs all rounds, or until ctx ends. There are outcomes of as many as
// were finished.
func (p plan) runAll(ctx context.Context, side io.Writer) map[string][]outcome {
	found := map[string][]outcome{}
	for round := range p.rounds {
		for _, m := range p.order(round) {
			start := time.Now()
			o := p.run(ctx, m)
			if ctx.Err() != nil {
				return found
			}
			found[m.key()] = append(found[m.key()], o)
			fmt.Fprintf(side, "round %d of %d: %v: %.1f s %s\n", round+1, p.rounds, m, time.Since(start).Seconds(), o.Error)
		}
	}
	return found
}

// run is one round of one measurement.
func (p plan) run(ctx context.Context, m measurement) outcome {
	j := job{Workload: m.workload.name, Peer: m.peer.Name, URL: p.urls[m.peer.Servers], Prefix: newPrefix(), Variant: m.variant}
	o := j.runApart(ctx)
	if err := j.sweep(ctx); err != nil && o.Error == "" {
		o = failure(fmt.Errorf("delete the keys it left: %w", err))
	}
	return o
}

// sweep deletes what the job has left on its servers.
func (j job) sweep(ctx context.Context) error {
	if j.URL == "" {
		return nil
	}
	return lockers.Sweep(ctx, j.URL, j.Prefix)
}

// urls reads the variables that name the servers.
func urls(numbers []int) (map[int]string, error) {
	urls := map[int]string{}
	for _, n := range numbers {
		urls[n] = os.Getenv(variables[n])
		if urls[n] == "" {
			return nil, fmt.Errorf("%s must be the URL of Redis; `make bench-peers` starts what is needed", variables[n])
		}
	}
	return urls, nil
}

// list takes names with commas between; "" is none.
func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
