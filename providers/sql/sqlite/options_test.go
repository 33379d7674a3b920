package sqlitelease

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestOptionsFromJSON(t *testing.T) {
	var options Options
	err := json.Unmarshal([]byte(`{
		"url": "sqlite://leases.db", "table": "locks", "create": true,
		"retention": "90m", "history": true, "history_renewals": true, "history_retention": "forever",
		"timeout": "3s", "synchronous": "normal", "one_host": true}`), &options)
	require.NoError(t, err)
	require.Equal(t, Options{
		URL: "sqlite://leases.db", Table: "locks", Create: true,
		Retention: 90 * time.Minute, History: true, HistoryRenewals: true, HistoryRetention: abstractions.Infinite,
		Timeout: 3 * time.Second, Synchronous: "normal", OneHost: true,
	}, options)

	for _, bad := range []string{`{"ttl": "3s"}`, `{"retention": 3}`, `{"retention": "3"}`, `{"create": "yes"}`, `{"DB": {}}`, `[]`, `{`} {
		require.Error(t, json.Unmarshal([]byte(bad), &Options{}), bad)
	}
	require.ErrorIs(t, (&Options{}).UnmarshalJSON([]byte(`{"ttl": "3s"}`)), abstractions.ErrInvalid)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"ttl": "3s"}`), &Options{}), "ttl")
}

// T52: a URL's parameter reaches its field, for every field that has a tag.
func TestTrap_T52_OptionsFromURLAreUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%#?.db")
	options := Options{URL: "sqlite://" + filepath.Dir(path) + "/a%20b%25%23%3F.db?table=locks&retention=90m&history=true&history_renewals=1&history_retention=forever&timeout=3s&synchronous=normal&one_host=true&create=true"}
	where, err := options.complete()
	require.NoError(t, err)
	require.Equal(t, path, where)
	options.URL = ""
	require.Equal(t, Options{
		Table: "locks", Create: true, Retention: 90 * time.Minute, History: true, HistoryRenewals: true, HistoryRetention: abstractions.Infinite,
		Timeout: 3 * time.Second, Synchronous: "normal", OneHost: true,
	}, options)
}

func TestBadOptionsNameTheField(t *testing.T) {
	db := new(sql.DB)
	for _, test := range []struct {
		options Options
		names   []string
	}{
		{Options{URL: "sqlite://x", DB: db}, []string{"URL and DB"}},
		{Options{URL: "mysql://root:secret@h/d"}, []string{"URL", "sqlite://"}},
		{Options{URL: "sqlite://"}, []string{"URL", "path"}},
		{Options{URL: "sqlite://:memory:"}, []string{"URL", "memlease"}},
		{Options{Path: "file:x.db"}, []string{"Path", "path"}},
		{Options{URL: "sqlite://x?path=y"}, []string{"URL", "before the query"}},
		{Options{URL: "postgres://root:secret@h/d"}, []string{"URL", "sqlite://"}},
		{Options{URL: "leases.db"}, []string{"URL"}},
		{Options{}, []string{"URL", "Path", "DB"}},
		{Options{Path: "x", DB: db}, []string{"Path and DB"}},
		{Options{URL: "sqlite://x?tabel=y"}, []string{"tabel"}},
		{Options{URL: "sqlite://x?table=y&table=z"}, []string{"table"}},
		{Options{URL: "sqlite://x?retention=5"}, []string{"retention", "5"}},
		{Options{URL: "sqlite://x?history=maybe"}, []string{"history", "maybe"}},
		{Options{URL: "sqlite://x#y"}, []string{"URL"}},
		{Options{URL: "sqlite://x", Table: `x"; DROP TABLE y; --`}, []string{"Table"}},
		{Options{URL: "sqlite://x", Table: "lease\x00"}, []string{"Table"}},
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
