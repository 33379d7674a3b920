module github.com/distributedleasing/leasing/samples

go 1.26.0

require (
	github.com/distributedleasing/leasing v0.1.0
	github.com/distributedleasing/leasing/providers/sql v0.1.0
)
