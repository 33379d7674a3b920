module github.com/distributedleasing/leasing/sequence

go 1.26.0

require (
	github.com/distributedleasing/leasing v0.1.0
	github.com/jackc/pgx/v5 v5.12.0
	github.com/ncruces/go-sqlite3 v0.35.6
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)
