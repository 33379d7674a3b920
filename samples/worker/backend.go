package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

// backend is one that a file may choose.
type backend struct {
	section string   // of the file: the JSON of the provider's options
	is      []string // what Capabilities().Provider may be
	open    func(ctx context.Context, section json.RawMessage) (leasing.Provider, error)
}

// backends are all there are, by the name that stands at "Provider". This table,
// and the imports, are all that the program knows of any of them; an
// application has the one line that it needs.
var backends = map[string]backend{
	"sqlite":   {"SQLite", []string{"sqlite"}, fromJSON(sqllease.Open)},
	"postgres": {"Postgres", []string{"postgres"}, fromJSON(sqllease.Open)},
	"redis":    {"Redis", []string{"redis", "redis-cluster"}, fromJSON(redislease.Open)},
	"redlock":  {"Redlock", []string{"redlock"}, fromJSON(redislease.Open)},
	"blob":     {"Blob", []string{"blob"}, fromJSON(bloblease.Open)},
	"cosmos":   {"Cosmos", []string{"cosmos"}, fromJSON(cosmoslease.Open)},
}

// fromJSON reads a provider's options from their JSON and opens it.
func fromJSON[O any, P leasing.Provider](open func(context.Context, O) (P, error)) func(context.Context, json.RawMessage) (leasing.Provider, error) {
	return func(ctx context.Context, section json.RawMessage) (leasing.Provider, error) {
		var options O
		if err := json.Unmarshal(section, &options); err != nil {
			return nil, err
		}
		provider, err := open(ctx, options)
		if err != nil {
			return nil, err // no interface that holds a nil pointer
		}
		return provider, nil
	}
}

// open opens the provider that the settings choose.
func (s settings) open(ctx context.Context) (leasing.Provider, error) {
	if s.url != "" {
		return place.Open(ctx, s.url)
	}
	b := backends[s.Provider]
	provider, err := b.open(ctx, s.Section)
	if err != nil {
		return nil, fmt.Errorf("%s, section %q: %w", s.file, b.section, err)
	}
	if is := provider.Capabilities().Provider; !slices.Contains(b.is, is) {
		return nil, errors.Join(fmt.Errorf("%s: \"Provider\" is %q, but the section %q opens %s, not %s",
			s.file, s.Provider, b.section, is, strings.Join(b.is, " or ")), provider.Close())
	}
	return provider, nil
}
