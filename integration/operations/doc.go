// Package operations checks the files for operators, Prometheus rules and a Grafana
// dashboard, on a fleet that is measured by a real Prometheus.
package operations
