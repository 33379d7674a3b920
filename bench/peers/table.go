package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// absent is shown in place of a missing figure.
const absent = "-"

// writeTable writes the figure of each peer in each row, and below the table the reasons
// of failed rounds.
func (p *plan) writeTable(out io.Writer, version string, took time.Duration) error {
	fmt.Fprintf(out, "%s/%s, %d CPUs, %s, %s, rounds: %d (%d), %d leases of %v held, %v\n\n", runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), runtime.Version(), version, p.size.Rounds, p.size.SlowRounds, p.size.Leases, p.size.TTL, took.Round(time.Second))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, peer := range p.peers {
		fmt.Fprint(table, "\t", peer.Name)
	}
	fmt.Fprint(table, "\tratio to the best peer\tbetter is\t\n")
	for _, w := range p.workloads {
		for _, r := range w.rows {
			fmt.Fprintf(table, "%-50s", r.title)
			for _, peer := range p.peers {
				fmt.Fprint(table, "\t", number(p.value(w, r, peer)))
			}
			better := "more"
			if r.less {
				better = "less"
			}
			fmt.Fprintf(table, "\t%s\t%s\t\n", number(p.ratio(w, r)), better)
		}
	}
	err := table.Flush()
	for _, failure := range p.failures {
		fmt.Fprintln(out, "FAILED", failure)
	}
	return err
}

// value returns a peer's figure over the rounds, or NaN if no round has a figure.
func (p *plan) value(w workload, r row, peer lockers.Peer) float64 {
	var values []float64
	for _, m := range p.results[key(w, peer)] {
		if value, ok := m[r.metric]; ok {
			values = append(values, value)
		}
	}
	if r.worst && len(values) > 0 {
		return slices.Max(values)
	}
	return median(values)
}

// ratio returns this library's figure divided by the best peer's, or a value that is not finite if
// one of them is missing or the divisor is 0.
func (p *plan) ratio(w workload, r row) float64 {
	ours := math.NaN()
	var others []float64
	for _, peer := range p.peers {
		value := p.value(w, r, peer)
		switch {
		case math.IsNaN(value) || peer.Local:
		case peer.Name == "leasing":
			ours = value
		default:
			others = append(others, value)
		}
	}
	if len(others) == 0 {
		return math.NaN()
	}
	best := slices.Max(others)
	if r.less {
		best = slices.Min(others)
	}
	return ours / best
}

// number formats a value with three digits or more, and commas between thousands.
func number(value float64) string {
	decimals := 2
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return absent
	case value >= 100 || value == 0:
		decimals = 0
	case value < 0.01:
		decimals = 5
	case value >= 10:
		decimals = 1
	}
	return message.NewPrinter(language.English).Sprintf("%.*f", decimals, value)
}
