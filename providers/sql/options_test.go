package sqllease

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

func TestOptionsFromJSON(t *testing.T) {
	var options Options
	err := json.Unmarshal([]byte(`{
		"url": "postgres://u@h/d", "dialect": "postgres", "schema": "ops", "table": "locks", "create": true,
		"retention": "90m", "history": true, "history_renewals": true, "history_retention": "forever",
		"timeout": "3s", "no_wakeups": true, "synchronous": "normal", "one_host": true}`), &options)
	require.NoError(t, err)
	require.Equal(t, Options{
		URL: "postgres://u@h/d", Dialect: Postgres, Schema: "ops", Table: "locks", Create: true,
		Retention: 90 * time.Minute, History: true, HistoryRenewals: true, HistoryRetention: abstractions.Infinite,
		Timeout: 3 * time.Second, NoWakeups: true, Synchronous: "normal", OneHost: true,
	}, options)

	for _, bad := range []string{`{"ttl": "3s"}`, `{"retention": 3}`, `{"retention": "3"}`, `{"create": "yes"}`, `{"DB": {}}`, `[]`, `{`} {
		require.Error(t, json.Unmarshal([]byte(bad), &Options{}), bad)
	}
	require.ErrorIs(t, (&Options{}).UnmarshalJSON([]byte(`{"ttl": "3s"}`)), abstractions.ErrInvalid)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"ttl": "3s"}`), &Options{}), "ttl")
}

// T52: what a URL sets is read, for every field that has a tag.
func TestTrap_T52_OptionsFromURLAreUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%#?.db")
	options := Options{URL: "sqlite://" + filepath.Dir(path) + "/a%20b%25%23%3F.db?table=locks&retention=90m&history=true&history_renewals=1&history_retention=forever&timeout=3s&synchronous=normal&one_host=true&create=true&no_wakeups=true"}
	_, where, err := options.complete()
	require.NoError(t, err)
	require.Equal(t, path, where)
	options.URL = ""
	require.Equal(t, Options{
		Dialect: SQLite, Schema: DefaultSchema, Table: "locks", Create: true, Retention: 90 * time.Minute, History: true, HistoryRenewals: true, HistoryRetention: abstractions.Infinite,
		Timeout: 3 * time.Second, NoWakeups: true, Synchronous: "normal", OneHost: true,
	}, options)

	options = Options{URL: "postgres://u:p@h:5432/d?sslmode=disable&schema=ops&application_name=x"}
	_, where, err = options.complete()
	require.NoError(t, err)
	require.Equal(t, "ops", options.Schema)
	require.Equal(t, "postgres://u:p@h:5432/d?application_name=x&sslmode=disable", where)
}

func TestOptionsReachTheirPlaces(t *testing.T) {
	p, err := Open(t.Context(), Options{
		URL: "postgres://u:p@127.0.0.1:1/d?pool_max_conns=7&connect_timeout=3", Schema: "ops", Table: "locks",
		Retention: time.Hour, History: true, HistoryRenewals: true, HistoryRetention: abstractions.Infinite, Timeout: 3 * time.Second,
	})
	require.NoError(t, err)
	defer p.Close()
	b := p.driver.backend.(*postgres)
	require.Equal(t, []string{"ops", "locks"}, []string{b.tables.schema, b.tables.table})
	require.Contains(t, b.sql["read"], `"ops"."locks"`)
	require.Contains(t, b.sql["history"], `"ops"."locks_history"`)
	require.Equal(t, recording{changes: true, renewals: true}, b.record)
	require.True(t, b.places.TryAcquire(6))
	require.False(t, b.places.TryAcquire(1), "one is for renewals")
	require.Equal(t, time.Hour, p.driver.retention)
	config, err := pgxConfig("postgres://h/d?connect_timeout=3")
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, config.ConnConfig.ConnectTimeout)
	require.Equal(t, "leasing", config.ConnConfig.RuntimeParams["application_name"])
}

func TestBadOptionsNameTheField(t *testing.T) {
	db, pool := new(sql.DB), new(pgxpool.Pool)
	for _, test := range []struct {
		options Options
		names   []string
	}{
		{Options{}, []string{"URL", "DSN", "DB", "Pool"}},
		{Options{URL: "sqlite://x", DB: db}, []string{"URL and DB"}},
		{Options{DSN: "x", Pool: pool}, []string{"DSN and Pool"}},
		{Options{URL: "mysql://root:secret@h/d"}, []string{"URL", "postgres://", "sqlite://"}},
		{Options{URL: "leases.db"}, []string{"URL"}},
		{Options{URL: "sqlite://x", Dialect: Postgres}, []string{"Dialect", "sqlite"}},
		{Options{DSN: "host=h"}, []string{"Dialect", "DSN"}},
		{Options{DB: db}, []string{"Dialect", "DB"}},
		{Options{DB: db, Dialect: "oracle"}, []string{"Dialect", "oracle"}},
		{Options{Pool: pool, Dialect: SQLite}, []string{"Dialect", "Pool"}},
		{Options{URL: "sqlite://"}, []string{"URL", "path"}},
		{Options{URL: "sqlite://:memory:"}, []string{"URL", "memlease"}},
		{Options{DSN: "file:x.db", Dialect: SQLite}, []string{"DSN", "path"}},
		{Options{URL: "sqlite://x?tabel=y"}, []string{"tabel"}},
		{Options{URL: "sqlite://x?table=y&table=z"}, []string{"table"}},
		{Options{URL: "sqlite://x?retention=5"}, []string{"retention", "5"}},
		{Options{URL: "sqlite://x?history=maybe"}, []string{"history", "maybe"}},
		{Options{URL: "sqlite://x#y"}, []string{"URL"}},
		{Options{URL: "sqlite://x", Schema: "s"}, []string{"Schema", "SQLite"}},
		{Options{URL: "sqlite://x", Table: `x"; DROP TABLE y; --`}, []string{"Table"}},
		{Options{URL: "sqlite://x", Table: "lease\x00"}, []string{"Table"}},
		{Options{URL: "postgres://h/d", Schema: "a.b"}, []string{"Schema", "a.b"}},
		{Options{URL: "sqlite://x", Retention: -1}, []string{"Retention", "1ms"}},
		{Options{URL: "sqlite://x", HistoryRetention: time.Microsecond}, []string{"HistoryRetention"}},
		{Options{URL: "sqlite://x", Timeout: -time.Second}, []string{"Timeout"}},
		{Options{URL: "sqlite://x", Synchronous: "off"}, []string{"Synchronous", "off"}},
		{Options{URL: "sqlite://x", HistoryRenewals: true}, []string{"HistoryRenewals", "History"}},
	} {
		_, err := Open(t.Context(), test.options)
		require.ErrorIs(t, err, abstractions.ErrInvalid, test.names)
		for _, name := range test.names {
			require.ErrorContains(t, err, name)
		}
		require.NotContains(t, err.Error(), "secret")
	}
}
