module github.com/distributedleasing/leasing/integration

go 1.26.0

require (
	github.com/distributedleasing/leasing v0.1.0
	github.com/distributedleasing/leasing/providers/sql v0.1.0
	github.com/stretchr/testify v1.12.1
	go.opentelemetry.io/otel/sdk v1.47.0
	go.opentelemetry.io/otel/sdk/metric v1.47.0
	golang.org/x/mod v0.38.0
)
