package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
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

// config is the configuration file that an application reads at its start. To move to another
// backend change "provider"; the options of other backends may stay.
//
// In "provider", and in the options of that provider, ${NAME} stands for the environment variable
// NAME, and ${NAME:-text} for text if NAME is unset or empty, so that a file need not hold secrets.
type config struct {
	Provider string                     `json:"provider"` // one of backends
	Backends map[string]json.RawMessage `json:"backends"` // options, by provider

	Name     string            `json:"name"`
	Owner    string            `json:"owner"`
	Metadata map[string]string `json:"metadata"` // in addition to host and pid
	TTL      duration          `json:"ttl"`
}

// backends are all backends of the library. Only this table and the imports
// depend on a backend; an application needs only one of these lines.
var backends = map[string]func(context.Context, json.RawMessage) (leasing.Provider, error){
	"sqlite":     fromJSON(sqlitelease.Open),
	"postgres":   fromJSON(postgreslease.Open),
	"redis":      fromJSON(redislease.Open),
	"redlock":    fromJSON(redislease.Open),
	"blob":       fromJSON(bloblease.Open),
	"cosmos":     fromJSON(cosmoslease.Open),
	"s3":         fromJSON(s3lease.Open),
	"etcd":       fromJSON(etcdlease.Open),
	"consul":     fromJSON(consullease.Open),
	"kubernetes": fromJSON(kuberneteslease.Open),
	"mariadb":    fromJSON(mysqllease.Open),
}

// fromJSON reads a provider's options from their JSON and opens the provider.
func fromJSON[O any, P leasing.Provider](open func(context.Context, O) (P, error)) func(context.Context, json.RawMessage) (leasing.Provider, error) {
	return func(ctx context.Context, section json.RawMessage) (leasing.Provider, error) {
		var options O
		if err := json.Unmarshal(section, &options); err != nil {
			return nil, err
		}
		provider, err := open(ctx, options)
		if err != nil {
			return nil, err // not an interface that holds a nil pointer
		}
		return provider, nil
	}
}

// duration is a time.Duration as text: "30s".
type duration time.Duration

// UnmarshalText parses text such as "1m30s".
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// lookup looks up an environment variable.
type lookup func(name string) (value string, found bool)

// read reads a file into c, overwriting the present values. An unknown member is an error.
func (c *config) read(file string, env lookup) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(c); err != nil {
		return err
	}
	if c.Provider, err = expand(c.Provider, env); err != nil {
		return err
	}
	if backends[c.Provider] == nil || c.Backends[c.Provider] == nil {
		return fmt.Errorf(`"provider" is %q: there are %v, and the file has options of %v`,
			c.Provider, slices.Sorted(maps.Keys(backends)), slices.Sorted(maps.Keys(c.Backends)))
	}
	section, err := expand(string(c.Backends[c.Provider]), env)
	c.Backends = map[string]json.RawMessage{c.Provider: json.RawMessage(section)}
	return err
}

// expand replaces references to environment variables in JSON. Errors name missing variables, and
// never contain values.
func expand(text string, env lookup) (expanded string, err error) {
	expanded = os.Expand(text, func(reference string) string {
		name, fallback, hasDefault := strings.Cut(reference, ":-")
		value, found := env(name)
		if !found && !hasDefault {
			err = fmt.Errorf("the environment variable %s is not set", name)
		}
		quoted, _ := json.Marshal(cmp.Or(value, fallback)) // a string can't fail
		return string(quoted[1 : len(quoted)-1])
	})
	return expanded, err
}
