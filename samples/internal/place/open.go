package place

import (
	"context"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/open"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	consullease "github.com/distributedleasing/leasing/providers/consul"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
	kuberneteslease "github.com/distributedleasing/leasing/providers/kubernetes"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
)

// openers are of all providers whose leases other processes reach by a URL.
var openers = []abstractions.Opener{
	sqllease.Opener(), mysqllease.Opener(), redislease.Opener(), bloblease.Opener(), cosmoslease.Opener(), s3lease.Opener(), etcdlease.Opener(), consullease.Opener(), kuberneteslease.Opener(),
}

// Open opens the provider whose URL it is.
func Open(ctx context.Context, rawURL string) (leasing.Provider, error) {
	return open.URL(ctx, rawURL, openers...)
}
