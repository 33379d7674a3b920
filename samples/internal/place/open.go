package place

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

// schemes are those of the URLs that Open knows.
var schemes = map[string]func(context.Context, string) (leasing.Provider, error){
	"sqlite":     with(sqllease.OpenURL),
	"postgres":   with(sqllease.OpenURL),
	"postgresql": with(sqllease.OpenURL),
	"redis":      with(redislease.OpenURL),
	"rediss":     with(redislease.OpenURL),
	"unix":       with(redislease.OpenURL),

	"azblob":       with(bloblease.OpenURL),
	"azblob+https": with(bloblease.OpenURL),
	"azblob+http":  with(bloblease.OpenURL),
	"cosmos":       with(cosmoslease.OpenURL),
	"cosmos+http":  with(cosmoslease.OpenURL),
}

// Open opens the provider whose URL it is: the scheme says which. An application
// knows which provider it runs on and calls that one's OpenURL; this is for
// programs that are told.
//
// Leases in memory have no URL: other processes can't reach them.
func Open(ctx context.Context, rawURL string) (leasing.Provider, error) {
	open, found := schemes[scheme(rawURL)]
	if !found {
		return nil, fmt.Errorf("no provider for URLs that begin with %q; there are %s", scheme(rawURL), Schemes())
	}
	return open(ctx, rawURL)
}

// Schemes lists how the URLs that Open knows begin.
func Schemes() string { return strings.Join(slices.Sorted(maps.Keys(schemes)), "://, ") + "://" }

// with makes a provider's OpenURL return the interface.
func with[P leasing.Provider](open func(context.Context, string) (P, error)) func(context.Context, string) (leasing.Provider, error) {
	return func(ctx context.Context, rawURL string) (leasing.Provider, error) {
		provider, err := open(ctx, rawURL)
		if err != nil {
			return nil, err // no interface that holds a nil pointer
		}
		return provider, nil
	}
}
