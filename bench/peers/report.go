package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
	"github.com/distributedleasing/leasing/bench/peers/internal/stats"
)

// report is what -json writes.
type report struct {
	Machine machine           `json:"machine"`
	Rounds  int               `json:"rounds"`
	Quick   bool              `json:"quick,omitempty"`
	Peers   map[string]string `json:"peers"` // what each is
	Results []result          `json:"results"`
}

// machine is where it was measured.
type machine struct {
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	CPUs  int    `json:"cpus"`
	Go    string `json:"go"`
	Redis string `json:"redis,omitempty"`
}

// result is one row of a table.
type result struct {
	Workload string `json:"workload"`
	Variant  string `json:"variant"`
	Peer     string `json:"peer"`
	// Metrics are medians over the rounds, or the worst round for columns that
	// say so. Units: see the columns of workloads.go.
	Metrics metrics   `json:"metrics,omitempty"`
	Each    []metrics `json:"each,omitempty"` // the rounds that did not fail
	Errors  []string  `json:"errors,omitempty"`
}

// newReport sums up what the rounds found.
func newReport(p plan, found map[string][]outcome) report {
	r := report{Rounds: p.rounds, Quick: p.quick, Peers: map[string]string{}}
	for _, rows := range p.tables() {
		for _, m := range rows {
			r.Peers[m.peer.Name] = m.peer.About
			r.Results = append(r.Results, m.result(found[m.key()]))
		}
	}
	return r
}

func (m measurement) result(outcomes []outcome) result {
	r := result{Workload: m.workload.name, Variant: m.variant.Label, Peer: m.peer.Name, Metrics: metrics{}}
	for _, o := range outcomes {
		if o.Error != "" {
			r.Errors = append(r.Errors, o.Error)
			continue
		}
		r.Each = append(r.Each, o.Metrics)
	}
	for _, c := range m.workload.columns {
		if values := r.values(c.key); len(values) > 0 {
			r.Metrics[c.key] = c.over(values)
		}
	}
	return r
}

// values are a metric's, of the rounds that have it.
func (r result) values(key string) []float64 {
	var values []float64
	for _, m := range r.Each {
		if value, ok := m[key]; ok {
			values = append(values, value)
		}
	}
	return values
}

// over sums up a metric's rounds.
func (c column) over(values []float64) float64 {
	if c.worst {
		return slices.Max(values)
	}
	return stats.Median(values)
}

// errFailed is the end of a run with a failure in it; the tables say which.
var errFailed = errors.New("something could not be measured; see FAILED above")

// failed says whether any round of any measurement failed.
func (r report) failed() bool {
	return slices.ContainsFunc(r.Results, func(one result) bool { return len(one.Errors) > 0 })
}

func (r report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// thisMachine asks the system, and one of the servers for its version.
func thisMachine(ctx context.Context, p plan) (machine, error) {
	m := machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	numbers := p.servers()
	if len(numbers) == 0 {
		return m, nil
	}
	clients, err := lockers.Clients(p.urls[numbers[0]], nil)
	if err != nil {
		return m, err
	}
	for _, client := range clients {
		defer client.Close() //nolint:errcheck // it was only asked
	}
	info, err := clients[0].Info(ctx, "server").Result()
	if err != nil {
		return m, fmt.Errorf("ask Redis for its version: %w", err)
	}
	_, after, _ := strings.Cut(info, "redis_version:")
	m.Redis, _, _ = strings.Cut(after, "\r\n")
	return m, nil
}

// writeFile writes the report as JSON; "" is no file.
func (r report) writeFile(name string) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(r.writeJSON(file), file.Close())
}
