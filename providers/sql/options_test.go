package sqllease

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
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
		"url": "postgres://u@h/d", "dialect": "postgres", "schema": "ops", "table": "locks", "migrate": true,
		"retention": "90m", "history": true, "history_renewals": true, "history_retention": "forever",
		"timeout": "3s", "no_wakeups": true, "synchronous": "normal"}`), &options)
	require.NoError(t, err)
	require.Equal(t, Options{
		URL: "postgres://u@h/d", Dialect: Postgres, Schema: "ops", Table: "locks", Migrate: true,
		Retention: 90 * time.Minute, History: true, HistoryRenewals: true, HistoryRetention: Forever,
		Timeout: 3 * time.Second, NoWakeups: true, Synchronous: "normal",
	}, options)

	for _, bad := range []string{`{"ttl": "3s"}`, `{"retention": 3}`, `{"retention": "3"}`, `{"migrate": "yes"}`, `{"DB": {}}`, `[]`, `{`} {
		require.Error(t, json.Unmarshal([]byte(bad), &Options{}), bad)
	}
	require.ErrorIs(t, (&Options{}).UnmarshalJSON([]byte(`{"ttl": "3s"}`)), abstractions.ErrInvalid)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"ttl": "3s"}`), &Options{}), "ttl")
}

// T52: what a URL sets is read, for every field that has a tag.
func TestTrap_T52_OptionsFromURLAreUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%#?.db")
	options, where, err := Options{URL: "sqlite://" + filepath.Dir(path) + "/a%20b%25%23%3F.db?table=locks&retention=90m&history=true&history_renewals=1&history_retention=forever&timeout=3s&synchronous=normal&migrate=true&no_wakeups=true"}.withURL(SQLite)
	require.NoError(t, err)
	require.Equal(t, path, where)
	options.URL = ""
	require.Equal(t, Options{
		Table: "locks", Migrate: true, Retention: 90 * time.Minute, History: true, HistoryRenewals: true, HistoryRetention: Forever,
		Timeout: 3 * time.Second, NoWakeups: true, Synchronous: "normal",
	}, options)
	require.Len(t, urlParameters, 10, "each of them is tested here or below")

	options, where, err = Options{URL: "postgres://u:p@h:5432/d?sslmode=disable&schema=ops&application_name=x"}.withURL(Postgres)
	require.NoError(t, err)
	require.Equal(t, "ops", options.Schema)
	require.Equal(t, "postgres://u:p@h:5432/d?application_name=x&sslmode=disable", where)
}

func TestOptionsReachTheirPlaces(t *testing.T) {
	p, err := Open(t.Context(), Options{
		URL: "postgres://u:p@127.0.0.1:1/d?pool_max_conns=7&connect_timeout=3", Schema: "ops", Table: "locks",
		Retention: time.Hour, History: true, HistoryRenewals: true, HistoryRetention: Forever, Timeout: 3 * time.Second,
	})
	require.NoError(t, err)
	defer p.Close()
	b := p.store.backend.(*postgres)
	require.Equal(t, naming{"ops", "locks"}, b.naming)
	require.Contains(t, b.sql.read, `"ops"."locks"`)
	require.Contains(t, b.sql.history, `"ops"."locks_history"`)
	require.Equal(t, recording{true, true}, b.record)
	require.Equal(t, 6, cap(b.lane))
	require.Equal(t, time.Hour, p.store.retention)
	require.Zero(t, p.store.historyRetention)
	require.Equal(t, 3*time.Second, p.store.timeout)
	config := b.db.(*pgxDatabase).pool.Config().ConnConfig
	require.Equal(t, 3*time.Second, config.ConnectTimeout)
	require.Equal(t, "leasing", config.RuntimeParams["application_name"])
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

// T49: no error, no log and no printed struct shows a password.
func TestTrap_T49_SecretsAreNotShown(t *testing.T) {
	var shown bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&shown, nil))
	show := func(values ...any) {
		for _, value := range values {
			fmt.Fprintf(&shown, "%v %+v %#v %s\n", value, value, value, value)
			logger.Info("opening", "options", value)
		}
	}
	for _, options := range []Options{
		{URL: "postgres://user:s3cret@127.0.0.1:1/d?connect_timeout=1"},
		{DSN: "user=u password=s3cret host=127.0.0.1 port=1 connect_timeout=1", Dialect: Postgres},
		{URL: "postgres://user:s3cret@127.0.0.1:bad/d"},
		{URL: "postgres://user:s3cret@127.0.0.1:1/d?table=%zz"},
		{URL: "postgres://user:s3cret@h/d#s3cret"},
		{DSN: "user=u password='s3cret", Dialect: Postgres},
		{DSN: "password=s3cret port=none", Dialect: Postgres},
		{DSN: "password = p s3cret x", Dialect: Postgres}, // which pgx quotes
		{DSN: "password=s3cret", Dialect: "mysql"},
		{URL: "mysql://user:s3cret@h/d"},
	} {
		show(options, &options)
		p, err := Open(t.Context(), options)
		if err == nil {
			err = p.Ping(t.Context())
			show(p, p.Store())
			require.NoError(t, p.Close())
		}
		require.Error(t, err)
		show(err)
	}
	show(json.Unmarshal([]byte(`{"url": "postgres://u:s3cret@h/d", "ttl": 3}`), &Options{}))
	require.NotContains(t, shown.String(), "s3cret")
}
