package telemetry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/memsequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/prometheus/otlptranslator"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Numbers with every outcome together produce points of every instrument of package sequence.
func TestTheSDKSeesEveryInstrumentOfSequence(t *testing.T) {
	points := map[string]string{}
	for _, m := range sequenceMetrics(t) {
		for of, value := range pointsOf(t, m.Data) {
			points[fmt.Sprintf("%s in %q %s", m.Name, m.Unit, of)] = value
		}
	}
	require.Equal(t, map[string]string{
		`sequence.committed in "" k s`:         "1",
		`sequence.commit.late in "" k s`:       "1",
		`sequence.barrier.wait in "s" k s`:     "1 of 3",
		`sequence.claims in "" k s`:            "4", // one number twice
		`expired_leases in "" k gap s`:         "2",
		`expired_leases in "" k recovered s`:   "1",
		`lease_overrun in "s" k s`:             "3 of 15",
		`recovery_success in "" completed k s`: "1",
		`recovery_failure in "" moody k s`:     "1",
		`sequence.hooks.failure in "" k s`:     "1",
		`sequence.open in "" s`:                "1",
		`sequence.expired in "" s`:             "0",
		`sequence.gaps in "" s`:                "1",
		`sequence.recovery.mode in "" s`:       "0",
	}, points)
}

// sequenceMetrics returns the metrics of a stream whose numbers are committed, lost, recovered
// and late.
func sequenceMetrics(t *testing.T) (all []metricdata.Metrics) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		lease := leasing.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}
		store := memsequence.New()
		require.NoError(t, store.CreateStream(t.Context(), "s"))
		s, err := sequence.NewStream(store, "s", sequence.Options[memsequence.Tx]{Lease: lease})
		require.NoError(t, err)
		begin := func(op string, d time.Duration) *sequence.Number[memsequence.Tx] {
			n, err := s.Lease(t.Context(), sequence.Operation{ID: op, Kind: "k", Duration: d})
			require.NoError(t, err)
			return n
		}
		lost := func(op string) sequence.Entry {
			e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: op, Kind: "k", Duration: time.Second})
			require.NoError(t, err)
			return e
		}
		failing, done := lost("fails"), lost("done")
		require.NoError(t, store.Save(t.Context(), seqstore.SaveRequest{Stream: "s", Seq: done.Seq, Token: done.Token, Work: sequence.Work{Phase: sequence.Completed}}))
		lost("gap")
		n, hooked := begin("waits", time.Minute), false
		time.Sleep(6 * time.Second) // the leases of 1 s ran out 5 s ago
		c, err := sequence.NewCleaner(store, "s", sequence.CleanerOptions[memsequence.Tx]{
			Lease: lease, RetryAfter: time.Second,
			Steps: []sequence.Step{{Name: "moody", Recover: func(_ context.Context, e sequence.Entry) (sequence.Recovery, error) {
				if e.Seq == failing.Seq && e.Attempts == 0 {
					return sequence.Recovery{}, errors.New("bad luck")
				}
				return sequence.Recovery{}, nil
			}}, sequence.CommitCompleted(), sequence.MakeGap()},
			Hooks: []sequence.Hook{func(context.Context, sequence.Entry) error {
				if !hooked {
					hooked = true
					return errors.New("not yet")
				}
				return nil
			}},
		})
		require.NoError(t, err)
		sweep := func() {
			_, err := c.Sweep(t.Context())
			require.NoError(t, err)
		}
		sweep()
		go func() {
			time.Sleep(3 * time.Second)
			sweep()
		}()
		require.NoError(t, n.Wait(t.Context()))
		require.NoError(t, n.Commit(t.Context(), nil, nil))
		open := begin("open", time.Minute)
		synctest.Wait()
		_, err = store.Fill(t.Context(), sequence.FillRequest{Stream: "s", Seq: failing.Seq, Op: failing.Op}, nil)
		require.NoError(t, err)
		sweep()
		require.NoError(t, store.Release(t.Context(), seqstore.ReleaseRequest{Stream: "s", Seq: open.Seq(), Token: open.Token()}))
		require.ErrorIs(t, open.Commit(t.Context(), nil, nil), sequence.ErrLate)
		var collected metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &collected))
		for _, scope := range collected.ScopeMetrics {
			if scope.Scope.Name == "github.com/distributedleasing/leasing/sequence" {
				all = scope.Metrics
			}
		}
		require.NoError(t, open.Release(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		require.NoError(t, s.Close(t.Context()))
	})
	return all
}

// pointsOf returns the values of a metric, or the counts and sums of a histogram, by the values of their attributes.
func pointsOf(t *testing.T, data metricdata.Aggregation) map[string]string {
	points := map[string]string{}
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			points[valuesOf(p.Attributes.ToSlice())] = fmt.Sprint(p.Value)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			points[valuesOf(p.Attributes.ToSlice())] = fmt.Sprint(p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			points[valuesOf(p.Attributes.ToSlice())] = fmt.Sprint(p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			points[valuesOf(p.Attributes.ToSlice())] = fmt.Sprintf("%d of %.0f", p.Count, p.Sum)
		}
	default:
		require.Failf(t, "unexpected", "%T", data)
	}
	return points
}

func valuesOf(attributes []attribute.KeyValue) string {
	var values []string // in the order of their keys
	for _, a := range attributes {
		values = append(values, a.Value.AsString())
	}
	return strings.Join(values, " ")
}

// rulesFile has the Prometheus rules of package sequence.
const rulesFile = "../../sequence/alerts.yml"

// The rules use the names under which Prometheus gets the metrics.
func TestTheRulesOfSequenceKnowItsMetrics(t *testing.T) {
	namer := otlptranslator.MetricNamer{WithMetricSuffixes: true}
	known := map[string]bool{"sequence_stream": true} // a label
	for _, m := range sequenceMetrics(t) {
		metric := otlptranslator.Metric{Name: m.Name, Unit: m.Unit, Type: otlptranslator.MetricTypeGauge}
		suffixes := []string{""}
		switch m.Data.(type) {
		case metricdata.Sum[int64]:
			metric.Type = otlptranslator.MetricTypeMonotonicCounter
		case metricdata.Histogram[float64]:
			metric.Type = otlptranslator.MetricTypeHistogram
			suffixes = []string{"_bucket", "_count", "_sum"}
		}
		name, err := namer.Build(metric)
		require.NoError(t, err)
		for _, suffix := range suffixes {
			known[name+suffix] = true
		}
	}
	rules, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	text := regexp.MustCompile(`(?m)#.*$|sequence:[a-z0-9_:]+|^ *(summary|description):.*$`).ReplaceAllString(string(rules), "")
	asked := regexp.MustCompile(`\b[a-z]+_[a-z_]+\b`).FindAllString(text, -1)
	require.Greater(t, len(asked), 10)
	for _, name := range asked {
		require.Contains(t, slices.Collect(maps.Keys(known)), name)
	}
}

// The rules fire beyond their limits, but not at the limits: see alerts_test.yml.
func TestTheRulesOfSequence(t *testing.T) {
	promtool := servertest.Require(t, "LEASING_TEST_PROMTOOL")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = "../../sequence"
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
