package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reported is a report of the plan's first tables with made-up figures.
func reported(t *testing.T) report {
	p, err := newPlan([]string{"contended"}, []string{"leasing", "redislock", "queue"})
	require.NoError(t, err)
	p.rounds = 3
	found := map[string][]outcome{}
	rows := p.tables()[0]
	for i, rates := range [][]float64{{900, 1000, 800}, {450, 90, 470}, {1000, 1000, 1000}} {
		for round, rate := range rates {
			found[rows[i].key()] = append(found[rows[i].key()], outcome{Metrics: metrics{"handoffs": rate, "starved": float64(round), "fairness": 0.5}})
		}
	}
	found[rows[1].key()] = append(found[rows[1].key()], outcome{Error: "out of luck"})
	r := newReport(p, found)
	r.Machine = machine{OS: "linux", Arch: "amd64", CPUs: 2, Go: "go1.26", Redis: "7.0"}
	return r
}

func TestReportTakesMedianAndWorst(t *testing.T) {
	r := reported(t)
	assert.Equal(t, metrics{"handoffs": 900, "starved": 2, "fairness": 0.5}, r.Results[0].Metrics)
	assert.Equal(t, metrics{"handoffs": 450, "starved": 2, "fairness": 0.5}, r.Results[1].Metrics)
	assert.Len(t, r.Results[1].Each, 3)
	assert.Equal(t, []string{"out of luck"}, r.Results[1].Errors)
	assert.True(t, r.failed())
	assert.Empty(t, r.Results[3].Metrics, "nothing was found in the second table")
}

func TestReportAsTables(t *testing.T) {
	var text strings.Builder
	require.NoError(t, reported(t).writeTables(&text))
	tables := strings.Split(text.String(), "\n\n")
	assert.Equal(t, "linux/amd64, 2 CPUs, go1.26, Redis 7.0, rounds: 3", tables[0])
	assert.Equal(t, "contended: goroutines fight for one name, 1 ms each\n64 goroutines, one client", tables[1])
	lines := strings.Split(tables[2], "\n")
	assert.Equal(t, []string{"peer", "hand-offs/s", "sections/s"}, strings.Fields(lines[0])[:3])
	for i, want := range [][]string{
		{"leasing", "900", "-", "-", "0.50", "2", "-", "-", "1.00", "0.90"},
		{"redislock", "450", "-", "-", "0.50", "2", "-", "-", "0.50", "0.45"},
		{"queue", "1,000", "-", "-", "0.50", "2", "-", "-", "1.11", "1.00"},
	} {
		assert.Equal(t, want, strings.Fields(lines[1+i]))
		assert.Len(t, lines[1+i], len(lines[0]), "the columns are not aligned")
	}
	assert.Equal(t, "FAILED redislock: out of luck", lines[4])
}

// TestRatioComparesEqualNumbersOfServers: three servers are not compared with one.
func TestRatioComparesEqualNumbersOfServers(t *testing.T) {
	w, err := workloadByName("cycles")
	require.NoError(t, err)
	rows := []result{
		{Peer: "leasing", Metrics: metrics{"rate": 100}},
		{Peer: "leasing-redlock", Metrics: metrics{"rate": 40}},
		{Peer: "redsync", Metrics: metrics{"rate": 50}},
		{Peer: "redsync-redlock", Metrics: metrics{"rate": 10}},
		{Peer: "raw-script", Metrics: metrics{"rate": 200}},
		{Peer: "raw-set", Metrics: metrics{}},
	}
	for i, want := range [][]string{{"1.00", "0.50"}, {"1.00", "0.20"}, {"0.50", "0.25"}, {"0.25", "0.05"}, {"2.00", "1.00"}, {"-", "-"}} {
		cells := w.cells(rows[i], rows)
		assert.Equal(t, want, cells[len(cells)-2:], rows[i].Peer)
	}
	assert.Equal(t, "-", w.ratio(rows[0], rows[1:], "leasing"), "it was not measured")
}

func TestReportAsJSON(t *testing.T) {
	var text strings.Builder
	want := reported(t)
	require.NoError(t, want.writeJSON(&text))
	var got report
	require.NoError(t, json.Unmarshal([]byte(text.String()), &got))
	got.Results[3].Metrics, got.Results[4].Metrics, got.Results[5].Metrics = metrics{}, metrics{}, metrics{} // omitted if empty
	assert.Equal(t, want, got)
}

func TestThousands(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "12": "12", "999": "999", "1000": "1,000", "123456": "123,456", "1234567.89": "1,234,567.89",
		"-1": "-1", "-123": "-123", "-1234.5": "-1,234.5", "0.05": "0.05",
	} {
		assert.Equal(t, want, thousands(text))
	}
}

func TestMultiple(t *testing.T) {
	for ratio, want := range map[float64]string{0.004: "0.00", 1: "1.00", 12.345: "12.35", 99.99: "99.99", 3949.86: "3,950"} {
		assert.Equal(t, want, multiple(ratio))
	}
}

func TestMetricsDropWhatIsNoNumber(t *testing.T) {
	m := metrics{"a": math.NaN(), "b": math.Inf(1), "c": 1}
	assert.Equal(t, metrics{"c": 1}, m.finite())
	assert.Nil(t, metrics(nil).finite())
}

func TestBill(t *testing.T) {
	start := time.Now()
	from := bill{at: start, clientCPU: time.Second, serverCPU: 2 * time.Second, commands: 10, mallocs: 100}
	to := bill{at: start.Add(30 * time.Second), clientCPU: 4 * time.Second, serverCPU: 3 * time.Second, commands: 70, mallocs: 400}
	used := to.since(from)
	assert.Equal(t, metrics{"commands": 6, "allocs": 30, "clientCPU": 300_000, "serverCPU": 100_000}, used.per(10))
	assert.Equal(t, metrics{"commands": 2, "clientCPU": 6, "serverCPU": 2}, used.perMinute())
	assert.Empty(t, bill{}.per(0).finite())
}

func TestParseCPU(t *testing.T) {
	info := "# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:2.250000\r\nused_cpu_sys_children:9.0\r\nused_cpu_user_children:9.0\r\nused_cpu_sys_main_thread:1.4\r\n"
	assert.Equal(t, 3750*time.Millisecond, parseCPU(info))
	assert.Zero(t, parseCPU(""))
}

func TestScore(t *testing.T) {
	from := score{handoffs: 2, shares: []int64{1, 1, 5}}
	to := score{handoffs: 8, shares: []int64{7, 7, 5}}
	m := to.since(from).metrics(bill{elapsed: 2 * time.Second, commands: 24, clientCPU: 12 * time.Microsecond})
	assert.Equal(t, 3.0, m["handoffs"])
	assert.Equal(t, 6.0, m["sections"])
	assert.Equal(t, 4.0, m["commands"])
	assert.Equal(t, 1.0, m["clientCPU"])
	assert.Equal(t, 1.0, m["starved"])
	assert.InDelta(t, 144.0/(3*72), m["fairness"], 1e-12)
}
