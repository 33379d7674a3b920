package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
)

// span records events.
type span struct {
	tracenoop.Span
	events []string
	attrs  []attribute.KeyValue
}

func (s *span) IsRecording() bool { return true }

func (s *span) AddEvent(name string, options ...trace.EventOption) {
	s.events = append(s.events, name)
	config := trace.NewEventConfig(options...)
	s.attrs = append(s.attrs, config.Attributes()...)
}

// meters is a meter provider whose counter can be read.
type meters struct {
	metricnoop.MeterProvider
	scope string
	meter meter
}

type meter struct {
	metricnoop.Meter
	name    string
	counter counting
}

type counting struct {
	metricnoop.Int64Counter
	mu   sync.Mutex
	seen map[string]int64
}

func (m *meters) Meter(scope string, _ ...metric.MeterOption) metric.Meter {
	m.scope = scope
	return &m.meter
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.name = name
	return &m.counter, nil
}

func (c *counting) Add(_ context.Context, n int64, options ...metric.AddOption) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := metric.NewAddConfig(options).Attributes()
	if c.seen == nil {
		c.seen = map[string]int64{}
	}
	c.seen[set.Encoded(attribute.DefaultEncoder())] += n
}

func TestObserversSeeWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []chaos.Injection
		var log bytes.Buffer
		m := new(meters)
		p, _ := wrappedWith(t, chaos.Options{
			Observer:      func(i chaos.Injection) { seen = append(seen, i) },
			Logger:        slog.New(slog.NewJSONHandler(&log, nil)),
			MeterProvider: m,
		}, chaos.Rule{Name: "r", Fault: chaos.Fault{Kind: chaos.FaultReplyLost, Delay: second}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpAcquire}}})
		time.Sleep(second)
		s := new(span)
		ctx := trace.ContextWithSpan(t.Context(), s)
		_, err := p.Acquire(ctx, claim("jobs/daily", "id"))
		require.ErrorIs(t, err, chaos.ErrInjected)
		require.NoError(t, p.Ping(ctx), "nothing happens to it")

		require.Len(t, seen, 1)
		assert.Equal(t, chaos.Injection{
			Rule: "r", Kind: chaos.FaultReplyLost, Op: chaos.OpAcquire, Name: "jobs/daily", Fingerprint: abstractions.FingerprintOf("id"), Owner: "owner", Nth: 1, Attempt: 1,
			At: seen[0].At, Since: second, Delay: second, After: true,
		}, seen[0])
		assert.Equal(t, []string{"chaos.injected"}, s.events)
		assert.ElementsMatch(t, []attribute.KeyValue{
			attribute.String("chaos.rule", "r"), attribute.String("chaos.kind", "reply_lost"), attribute.String("chaos.op", "acquire"),
			attribute.String("leasing.name", "jobs/daily"), attribute.Float64("chaos.delay", 1), attribute.Bool("chaos.after", true),
		}, s.attrs)
		var line map[string]any
		require.NoError(t, json.Unmarshal(log.Bytes(), &line), log.String())
		assert.Equal(t, "fault injected", line["msg"])
		assert.Equal(t, "INFO", line["level"])
		assert.Equal(t, "jobs/daily", line["name"])
		assert.Equal(t, "owner", line["owner"])
		assert.Equal(t, "github.com/distributedleasing/leasing/chaos", m.scope)
		assert.Equal(t, "leasing.chaos.injected", m.meter.name)
		assert.Equal(t, map[string]int64{"leasing.chaos.op=acquire,leasing.chaos.rule=r": 1}, m.meter.counter.seen)
	})
}

// TestTheCounterKnowsEachRuleAndOperation: the counter has the rule and the operation as
// attributes.
func TestTheCounterKnowsEachRuleAndOperation(t *testing.T) {
	m := new(meters)
	b := newBackend()
	p, err := chaos.Wrap(b, chaos.Plan{Rules: []chaos.Rule{
		{Name: "all", Fault: chaos.Fault{Kind: chaos.FaultError}},
		{Name: "batch", Fault: chaos.Fault{Kind: chaos.FaultError}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenewBatch}}, Disabled: true},
	}}, chaos.Options{MeterProvider: m})
	require.NoError(t, err)
	defer p.Close()
	for _, verb := range verbs {
		_ = verb.call(t.Context(), p, b)
	}
	require.NoError(t, p.Disable("all"))
	require.NoError(t, p.Enable("batch"))
	_, err = p.RenewBatch(t.Context(), []abstractions.RenewRequest{b.renewal("n", "id")})
	require.ErrorIs(t, err, chaos.ErrInjected)
	want := map[string]int64{"leasing.chaos.op=renew_batch,leasing.chaos.rule=batch": 1}
	for _, op := range []chaos.Op{chaos.OpAcquire, chaos.OpRelease, chaos.OpBreak, chaos.OpInspect, chaos.OpList, chaos.OpPing, chaos.OpHistory, chaos.OpWait, chaos.OpWaiters} {
		want["leasing.chaos.op="+string(op)+",leasing.chaos.rule=all"] = 1
	}
	want["leasing.chaos.op=renew,leasing.chaos.rule=all"] = 3 // a single renewal and two batches of one item
	assert.Equal(t, want, m.meter.counter.seen)
}

func TestReport(t *testing.T) {
	p, b := wrapped(t,
		chaos.Rule{Name: "lost", Fault: chaos.Fault{Kind: chaos.FaultRequestLost}, When: chaos.Policy{First: 3}},
		chaos.Rule{Name: "unused", Fault: chaos.Fault{Kind: chaos.FaultThrottle}, Match: chaos.Match{Names: []string{"nobody's"}}})
	for _, id := range []string{"a", "b"} {
		_, _ = p.Acquire(t.Context(), claim("n/"+id, id))
	}
	_ = p.Ping(t.Context())
	_ = p.Ping(t.Context())
	_, _ = p.RenewBatch(t.Context(), []abstractions.RenewRequest{b.renewal("n/a", "a")})
	report := p.Report()
	assert.Equal(t, chaos.Report{
		Seed: 1, Injected: 3,
		Operations: map[chaos.Op]int{chaos.OpAcquire: 2, chaos.OpPing: 2, chaos.OpRenewBatch: 1, chaos.OpRenew: 1},
		ByRule:     map[string]int{"lost": 3, "unused": 0},
		ByKind:     map[chaos.FaultKind]int{chaos.FaultRequestLost: 3},
		ByOp:       map[chaos.Op]int{chaos.OpAcquire: 2, chaos.OpPing: 1},
		ByName:     map[string]int{"n/a": 1, "n/b": 1, "": 1},
		ByOwner:    map[string]int{"owner": 2, "": 1},
	}, report)
	assert.Equal(t, []string{"unused"}, report.Unused())
	assert.Equal(t, strings.Join([]string{
		`chaos: plan "", seed 1: 3 faults in 6 operations`,
		`  rules: lost 3, unused 0`,
		`  kinds: request_lost 3`,
		`  operations: acquire 2, ping 1`,
		`  names: (none) 1, n/a 1, n/b 1`,
		`  owners: owner 2, (none) 1`,
	}, "\n"), report.String())
	var again chaos.Report
	require.NoError(t, json.Unmarshal(asJSON(t, report), &again))
	assert.Equal(t, report, again)
	_ = p.Ping(t.Context())
	assert.Equal(t, again, report, "a report does not change")
}

// TestAReportStaysSmall: a report counts only a limited number of names separately, so that new
// names do not fill the memory.
func TestAReportStaysSmall(t *testing.T) {
	p, _ := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}})
	for range 3000 {
		_, _ = p.Inspect(t.Context(), abstractions.InspectRequest{Name: abstractions.NewID()})
	}
	report := p.Report()
	assert.LessOrEqual(t, len(report.ByName), 1025)
	assert.Equal(t, 3000-1024, report.ByName["(others)"])
	assert.Contains(t, report.String(), "and 1015 more")
}

// TestDecisions: each rule reports its decision about each operation, with the reason.
func TestDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ping := chaos.Match{Ops: []chaos.Op{chaos.OpPing}}
		lost := chaos.Fault{Kind: chaos.FaultRequestLost}
		var last map[string]string
		p, _ := wrappedWith(t, chaos.Options{Owner: "me", OnDecision: func(d chaos.Decision) {
			assert.Equal(t, d.Happens, d.Reason == "")
			assert.Equal(t, "me", d.Owner)
			last[d.Rule] = fmt.Sprintln(d.Op, d.Nth, d.Attempt, d.Position, d.Happens, d.Reason)
		}},
			chaos.Rule{Name: "off", Fault: lost, Match: ping, Disabled: true},
			chaos.Rule{Name: "other op", Fault: lost, Match: chaos.Match{Ops: []chaos.Op{chaos.OpAcquire}}},
			chaos.Rule{Name: "retry", Fault: lost, Match: chaos.Match{OnlyOnRetry: true, MaxAttempt: 2}},
			chaos.Rule{Name: "later", Fault: lost, Match: ping, When: chaos.Policy{From: time.Hour}},
			chaos.Rule{Name: "count", Fault: lost, Match: ping, When: chaos.Policy{Skip: 9}},
			chaos.Rule{Name: "chance", Fault: lost, Match: ping, When: chaos.Policy{Probability: 1e-9}},
			chaos.Rule{Name: "mine", Fault: lost, Match: ping, When: chaos.Policy{Custom: policy(func(chaos.Operation) bool { return false })}},
			chaos.Rule{Name: "stale", Fault: chaos.Fault{Kind: chaos.FaultStaleRead}},
			chaos.Rule{Name: "once", Fault: lost, Match: ping, Budget: chaos.Budget{Total: 1}},
			chaos.Rule{Name: "rarely", Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: second}, Match: ping, Rate: chaos.Rate{Count: 1, Per: time.Hour}},
			chaos.Rule{Name: "never", Fault: lost, Match: ping},
		)
		ask := func() map[string]string {
			last = map[string]string{}
			_ = p.Ping(t.Context())
			return last
		}
		assert.Equal(t, map[string]string{
			"off": "ping 1 1 0 false disabled\n", "other op": "ping 1 1 0 false match\n", "retry": "ping 1 1 0 false attempt\n", "later": "ping 1 1 0 false window\n",
			"count": "ping 1 1 1 false count\n", "chance": "ping 1 1 1 false probability\n", "mine": "ping 1 1 1 false policy\n", "stale": "ping 1 1 0 false match\n",
			"once": "ping 1 1 1 true \n", "rarely": "ping 1 1 1 true \n", "never": "ping 1 1 1 false other\n",
		}, ask())
		second := ask()
		assert.Equal(t, "ping 2 2 1 true \n", second["retry"])
		assert.Equal(t, "ping 2 2 2 false other\n", second["once"])
		assert.Equal(t, "ping 2 2 2 false rate\n", second["rarely"])
		third := ask()
		assert.Equal(t, "ping 3 3 0 false attempt\n", third["retry"])
		assert.Equal(t, "ping 3 3 3 false budget\n", third["once"])
		last = map[string]string{}
		_, _ = p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		assert.Equal(t, "inspect 1 1 1 false no_answer\n", last["stale"])
	})
}
