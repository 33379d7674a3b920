package operations

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write operations/dashboard.json")

// panel is a panel of the dashboard, with one or more queries.
type panel struct {
	title, unit, about string
	queries            []query
}

type query struct{ legend, expr string }

// selected and selectedProvider select series by the dashboard's variables. selected is for series with a
// scope, and selectedProvider for series without a scope.
const (
	selected         = `leasing_provider=~"$provider", leasing_scope=~"$scope"`
	selectedProvider = `leasing_provider=~"$provider"`
	window           = `[$__rate_interval]`
)

// rate returns a query for the events per second of a counter, by a label.
func rate(by, counter, selected string) string {
	return `sum by (` + by + `) (rate(` + counter + `{` + selected + `}` + window + `))`
}

// quantile returns a query for a quantile of a histogram, for each scope.
func quantile(q, histogram string) string {
	return `histogram_quantile(` + q + `, sum by (le, leasing_scope) (rate(` + histogram + `_bucket{` + selected + `}` + window + `)))`
}

// panels are in the order in which an operator looks at a failing fleet: does the backend
// answer, which processes hold and wait, which requests fail.
var panels = []panel{
	{"Backend answers", "none", "1 while requests are answered, 0 since one was not, for each process.",
		[]query{{"{{instance}} {{leasing_provider}}", `leasing_backend_up{` + selectedProvider + `}`}}},
	{"Leases held", "short", "By the processes that are measured.",
		[]query{{"{{leasing_scope}}", `sum by (leasing_scope) (leasing_active_count{` + selected + `})`}}},
	{"Acquires that wait", "short", "Candidates of an election wait for as long as they are no leaders.",
		[]query{{"{{leasing_scope}}", `sum by (leasing_scope) (leasing_waiters{` + selected + `})`}}},
	{"Oldest wait", "s", "The age of the oldest acquire that waits.",
		[]query{{"{{instance}}", `leasing_waiters_oldest_seconds{` + selectedProvider + `}`}}},
	{"Leases lost", "short", "Leases that ended without a release, by reason, within the window.",
		[]query{{"{{leasing_scope}} {{leasing_lost_reason}}", `sum by (leasing_scope, leasing_lost_reason) (increase(leasing_lost_total{` + selected + `}` + window + `))`}}},
	{"Trust left by renewals", "s", "What was left when a renewal came back: the twentieth and the median. At 0 a lease is lost.",
		[]query{{"{{leasing_scope}} 5 %", quantile("0.05", "leasing_renewal_margin_seconds")}, {"{{leasing_scope}} 50 %", quantile("0.5", "leasing_renewal_margin_seconds")}}},
	{"Renewals", "ops", "Those that succeeded, and attempts that failed.",
		[]query{{"{{leasing_scope}}", rate("leasing_scope", "leasing_renewal_success_total", selected)},
			{"{{leasing_scope}} {{error_type}}", rate("leasing_scope, error_type", "leasing_renewal_failure_total", selected)}}},
	{"Time of a renewal", "s", "One attempt: the median and the 99th of a hundred.",
		[]query{{"{{leasing_scope}} 50 %", quantile("0.5", "leasing_renewal_duration_seconds")}, {"{{leasing_scope}} 99 %", quantile("0.99", "leasing_renewal_duration_seconds")}}},
	{"Acquires", "ops", "Leases acquired, and acquires that ended without a lease. held: another process has the name.",
		[]query{{"{{leasing_scope}}", rate("leasing_scope", "leasing_acquire_success_total", selected)},
			{"{{leasing_scope}} {{error_type}}", rate("leasing_scope, error_type", "leasing_acquire_failure_total", selected)},
			{"{{leasing_scope}} attempts {{error_type}}", rate("leasing_scope, error_type", "leasing_acquire_attempt_failure_total", selected)}}},
	{"Time to a lease", "s", "From asking to having it or giving up, waiting included.",
		[]query{{"{{leasing_scope}} 50 %", quantile("0.5", "leasing_acquire_duration_seconds")}, {"{{leasing_scope}} 99 %", quantile("0.99", "leasing_acquire_duration_seconds")}}},
	{"Time of a release", "s", "Until the backend has it.",
		[]query{{"{{leasing_scope}} 99 %", quantile("0.99", "leasing_release_duration_seconds")}}},
	{"Time for which leases were held", "s", "Of those that have ended.",
		[]query{{"{{leasing_scope}} 50 %", quantile("0.5", "leasing_held_duration_seconds")}, {"{{leasing_scope}} 99 %", quantile("0.99", "leasing_held_duration_seconds")}}},
	{"Broken by force", "short", "Leases that an operator, or another process, has ended, within the window.",
		[]query{{"{{leasing_scope}}", `sum by (leasing_scope) (increase(leasing_broken_total{` + selected + `}` + window + `))`}}},
	{"Owed to the backend", "short", "Claims without a holder that are still to be released.",
		[]query{{"{{instance}}", `leasing_cleanups{` + selectedProvider + `}`}}},
	{"Refused by fences, and panics of observers", "short", "Within the window.",
		[]query{{"{{instance}} refused", `sum by (instance) (increase(leasing_fence_refused_total` + window + `))`},
			{"{{instance}} panics", `sum by (instance) (increase(leasing_observer_panics_total{` + selectedProvider + `}` + window + `))`}}},
}

// dashboard returns the dashboard in Grafana's JSON model, with schema version 39, as in Grafana 11.
func dashboard() map[string]any {
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${datasource}"}
	chosen := func(name, label string) object {
		values := "label_values(" + label + ")"
		return object{
			"name": name, "label": name, "type": "query", "datasource": source, "definition": values,
			"query": object{"query": values, "refId": name}, "refresh": 2, "sort": 1,
			"multi": true, "includeAll": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"},
		}
	}
	var all []object
	for i, p := range panels {
		var targets []object
		for j, q := range p.queries {
			targets = append(targets, object{"refId": string(rune('A' + j)), "datasource": source, "expr": q.expr, "legendFormat": q.legend})
		}
		all = append(all, object{
			"id": i + 1, "type": "timeseries", "title": p.title, "description": p.about, "datasource": source, "targets": targets,
			"gridPos":     object{"x": 8 * (i % 3), "y": 8 * (i / 3), "w": 8, "h": 8},
			"fieldConfig": object{"defaults": object{"unit": p.unit, "min": 0}, "overrides": []any{}},
			"options":     object{"tooltip": object{"mode": "multi"}, "legend": object{"displayMode": "list", "placement": "bottom"}},
		})
	}
	return object{
		"uid": "leasing", "title": "Leases", "tags": []string{"leasing"}, "schemaVersion": 39, "editable": true,
		"time": object{"from": "now-1h", "to": "now"}, "refresh": "30s", "panels": all,
		"templating": object{"list": []object{
			{"name": "datasource", "type": "datasource", "query": "prometheus"},
			chosen("provider", "leasing_backend_up, leasing_provider"), chosen("scope", "leasing_active_count, leasing_scope"),
		}},
	}
}

// The dashboard in the repository equals the result of dashboard. It names no data source, so it
// can be imported anywhere.
func TestTheDashboardIsUpToDate(t *testing.T) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(dashboard()))
	const file = "../../operations/dashboard.json"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
	}
	stored, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, text.String(), string(stored), "go test -C integration ./operations -run Dashboard -update")
}
