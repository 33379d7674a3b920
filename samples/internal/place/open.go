package place

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

// Schemes is how the URLs that Open knows begin.
const Schemes = "azblob://, azblob+http://, azblob+https://, cosmos://, cosmos+http://, postgres://, postgresql://, redis://, rediss://, sqlite://, unix://"

// Open opens the provider whose URL it is: the scheme says which. An application
// knows which provider it runs on and calls that one's OpenURL; this is for
// programs that are told.
//
// Leases in memory have no URL: other processes can't reach them.
func Open(ctx context.Context, rawURL string) (leasing.Provider, error) {
	switch scheme(rawURL) {
	case "sqlite", "postgres", "postgresql":
		return asProvider(sqllease.OpenURL(ctx, rawURL))
	case "redis", "rediss", "unix":
		return asProvider(redislease.OpenURL(ctx, rawURL))
	case "azblob", "azblob+https", "azblob+http":
		return asProvider(bloblease.OpenURL(ctx, rawURL))
	case "cosmos", "cosmos+http":
		return asProvider(cosmoslease.OpenURL(ctx, rawURL))
	}
	return nil, fmt.Errorf("no provider for URLs that begin with %q; there are %s", scheme(rawURL), Schemes)
}

// asProvider returns no interface that holds a nil pointer.
func asProvider[P leasing.Provider](provider P, err error) (leasing.Provider, error) {
	if err != nil {
		return nil, err
	}
	return provider, nil
}
