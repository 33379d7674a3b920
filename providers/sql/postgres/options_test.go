package postgreslease

import (
	"database/sql"
	"encoding/json"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

func TestOptionsFromJSON(t *testing.T) {
	var options Options
	err := json.Unmarshal([]byte(`{
		"url": "postgres://u@h/d", "schema": "ops", "table": "locks", "create": true,
		"retention": "90m", "history": true, "history_renewals": true, "history_retention": "forever",
		"timeout": "3s", "no_wakeups": true}`), &options)
	require.NoError(t, err)
	require.Equal(t, Options{
		URL: "postgres://u@h/d", Schema: "ops", Table: "locks", Create: true,
		Retention: 90 * time.Minute, History: true, HistoryRenewals: true, HistoryRetention: abstractions.Infinite,
		Timeout: 3 * time.Second, NoWakeups: true,
	}, options)

	for _, bad := range []string{`{"ttl": "3s"}`, `{"retention": 3}`, `{"retention": "3"}`, `{"create": "yes"}`, `{"DB": {}}`, `[]`, `{`} {
		require.Error(t, json.Unmarshal([]byte(bad), &Options{}), bad)
	}
	require.ErrorIs(t, (&Options{}).UnmarshalJSON([]byte(`{"ttl": "3s"}`)), abstractions.ErrInvalid)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"ttl": "3s"}`), &Options{}), "ttl")
}

// T52: a URL's parameter reaches its field, for every field that has a tag.
func TestTrap_T52_OptionsFromURLAreUsed(t *testing.T) {
	options := Options{URL: "postgres://u:p@h:5432/d?sslmode=disable&schema=ops&application_name=x&table=locks&retention=90m&history=true&history_renewals=1&history_retention=forever&timeout=3s&create=true&no_wakeups=true"}
	_, where, err := options.complete()
	require.NoError(t, err)
	require.Equal(t, "postgres://u:p@h:5432/d?application_name=x&sslmode=disable", where)
	options.URL = ""
	require.Equal(t, Options{
		Schema: "ops", Table: "locks", Create: true, Retention: 90 * time.Minute, History: true, HistoryRenewals: true, HistoryRetention: abstractions.Infinite,
		Timeout: 3 * time.Second, NoWakeups: true,
	}, options)

	options = Options{URL: "postgres://h/d"}
	_, _, err = options.complete()
	require.NoError(t, err)
	require.Equal(t, DefaultSchema, options.Schema)
}

func TestOptionsReachTheirPlaces(t *testing.T) {
	p, err := Open(t.Context(), Options{
		URL: "postgres://u:p@127.0.0.1:1/d?pool_max_conns=7&connect_timeout=3", Schema: "ops", Table: "locks",
		Retention: time.Hour, History: true, HistoryRenewals: true, HistoryRetention: abstractions.Infinite, Timeout: 3 * time.Second,
	})
	require.NoError(t, err)
	defer p.Close()
	b := backendOf(p)
	require.Equal(t, []string{"ops", "locks"}, []string{b.Tables.Schema, b.Tables.Table})
	require.Contains(t, b.SQL["read"], `"ops"."locks"`)
	require.Contains(t, b.SQL["history"], `"ops"."locks_history"`)
	require.Equal(t, dialect.Recording{Changes: true, Renewals: true}, b.Record)
	require.Equal(t, 7, b.db.size)
	require.Equal(t, time.Hour, b.Retention)
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
		{Options{DSN: "x", Pool: pool}, []string{"DSN and Pool"}},
		{Options{URL: "postgres://h/d", DB: db}, []string{"URL and DB"}},
		{Options{URL: "mysql://root:secret@h/d"}, []string{"URL", "postgres://", "postgresql://"}},
		{Options{URL: "postgres://h/d", Schema: `x"; DROP TABLE y; --`}, []string{"Schema"}},
		{Options{URL: "postgres://h/d", Table: `x"; DROP TABLE y; --`}, []string{"Table"}},
		{Options{URL: "postgres://h/d", Table: "lease\x00"}, []string{"Table"}},
		{Options{URL: "postgres://h/d", Retention: -1}, []string{"Retention", "1ms"}},
		{Options{URL: "postgres://h/d", HistoryRenewals: true}, []string{"HistoryRenewals", "History"}},
		{Options{URL: "postgres://h/d?retention=5"}, []string{"retention", "5"}},
		{Options{URL: "postgres://h/d", Schema: "a.b"}, []string{"Schema", "a.b"}},
	} {
		_, err := Open(t.Context(), test.options)
		require.ErrorIs(t, err, abstractions.ErrInvalid, test.names)
		for _, name := range test.names {
			require.ErrorContains(t, err, name)
		}
		require.NotContains(t, err.Error(), "secret")
	}
}
