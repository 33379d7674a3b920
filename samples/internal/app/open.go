package app

import (
	"context"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/open"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	consullease "github.com/distributedleasing/leasing/providers/consul"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
	kuberneteslease "github.com/distributedleasing/leasing/providers/kubernetes"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

// Open opens the provider of a URL. An application needs one or two of these.
func Open(ctx context.Context, rawURL string) (leasing.Provider, error) {
	return open.URL(ctx, rawURL, postgreslease.Opener(), sqlitelease.Opener(), mysqllease.Opener(), redislease.Opener(), bloblease.Opener(),
		cosmoslease.Opener(), s3lease.Opener(), etcdlease.Opener(), consullease.Opener(), kuberneteslease.Opener())
}
