package postgreslease

import (
	"context"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// T119: an error from the password function of an application's pool says nothing about PostgreSQL.
func TestTrap_T119_SourcesOfPasswordsFail(t *testing.T) {
	schema := newSchema(t)
	source := &credentialtest.Source{}
	before := func(ctx context.Context, _ *pgx.ConnConfig) error { return source.Err(ctx) }
	config, err := pgxpool.ParseConfig(postgresURL(t))
	require.NoError(t, err)
	for name, open := range map[string]func(t testing.TB) Options{
		"Pool": func(t testing.TB) Options {
			config := config.Copy()
			config.BeforeConnect, config.MaxConnLifetime, config.HealthCheckPeriod = before, time.Second, 100*time.Millisecond
			pool, err := pgxpool.NewWithConfig(context.Background(), config)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			return Options{Pool: pool}
		},
		"DB": func(t testing.TB) Options {
			db := stdlib.OpenDB(*config.ConnConfig, stdlib.OptionBeforeConnect(before))
			db.SetConnMaxLifetime(time.Second)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			return Options{DB: db}
		},
	} {
		t.Run(name, func(t *testing.T) {
			credentialtest.SourcesOfCredentials(t, credentialtest.SourceCheck{
				Source: source, TTL: time.Minute, Unnamed: true,
				Open: func(t testing.TB) abstractions.Provider {
					o := open(t)
					o.Schema, o.Create = schema, true
					p, err := Open(t.Context(), o)
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, p.Close()) })
					return p
				},
			})
		})
	}
}
