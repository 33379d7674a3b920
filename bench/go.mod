module github.com/distributedleasing/leasing/bench

go 1.26.0

require (
	github.com/distributedleasing/leasing v0.1.0
	github.com/distributedleasing/leasing/providers/sql v0.1.0
	go.opentelemetry.io/otel/sdk/metric v1.47.0
)
