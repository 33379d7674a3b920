package mysqllease

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// Names that are equal under a collation are different names.
func TestNamesAreComparedByteByByte_mariadb(t *testing.T) {
	p := newBed(t, mariadbURL(t)).open(t)
	names := []string{"a", "A", "a ", " a", "ä", "a\u0308", "a%", "a_", `a\`, "a'; DROP TABLE lease; --", strings.Repeat("x", abstractions.MaxNameBytes)}
	tokens := map[string]int64{}
	var all []abstractions.RenewRequest
	for _, name := range names {
		grant, err := p.Acquire(bounded(t), claimOf(name, time.Minute))
		require.NoError(t, err, name)
		tokens[name] = grant.Token
		all = append(all, renewalOf(grant))
	}
	results, err := p.RenewBatch(bounded(t), all)
	require.NoError(t, err)
	for i, result := range results {
		require.NoError(t, result.Err, names[i])
	}
	list, err := p.List(bounded(t), abstractions.ListRequest{HeldOnly: true})
	require.NoError(t, err)
	require.Len(t, list.Records, len(names))
	for _, record := range list.Records {
		require.Equal(t, tokens[record.Name], record.Token, record.Name)
	}
	list, err = p.List(bounded(t), abstractions.ListRequest{Prefix: "a_"})
	require.NoError(t, err)
	require.Len(t, list.Records, 1)
}

// Processes that start together create the tables once. If a process was interrupted, another process
// continues.
func TestMigration_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	p, err := OpenURL(bounded(t), b.url)
	require.NoError(t, err)
	defer p.Close()
	require.ErrorIs(t, p.Ping(bounded(t)), abstractions.ErrNotSetUp)
	for _, statement := range p.Statements()[:2] {
		b.exec(t, statement)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			other, err := OpenURL(bounded(t), b.url+"?create=true")
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { require.NoError(t, other.Close()) })
		})
	}
	all.Wait()
	require.NoError(t, p.Ping(bounded(t)))
	require.NoError(t, p.Migrate(bounded(t)))
}

// A role without permissions receives the statements to run, and gets ErrDenied for requests that need a missing permission.
func TestRights_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	owner := b.open(t)
	role := "weak" + b.name[len(b.name)-8:]
	b.exec(t, "CREATE USER "+role+"@'127.0.0.1' IDENTIFIED BY 'geheim'")
	b.exec(t, "CREATE USER "+role+"@localhost IDENTIFIED BY 'geheim'")
	t.Cleanup(func() { b.exec(t, "DROP USER "+role+"@'127.0.0.1', "+role+"@localhost") })
	for _, host := range []string{"'127.0.0.1'", "localhost"} {
		b.exec(t, "GRANT SELECT ON lease_version TO "+role+"@"+host)
		b.exec(t, "GRANT SELECT ON lease TO "+role+"@"+host)
	}
	weakURL := strings.Replace(b.url, b.config.User+":"+b.config.Passwd+"@", role+":geheim@", 1)
	weak, err := OpenURL(bounded(t), weakURL)
	require.NoError(t, err)
	defer weak.Close()
	_, err = weak.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	_, err = OpenURL(bounded(t), weakURL+"?create=true&table=other")
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorContains(t, err, "CREATE TABLE IF NOT EXISTS `other`")
	wrong, err := OpenURL(bounded(t), strings.Replace(weakURL, "geheim", "falsch", 1))
	require.NoError(t, err)
	defer wrong.Close()
	err = wrong.Ping(bounded(t))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	require.NotContains(t, err.Error(), "falsch")
	for _, host := range []string{"'127.0.0.1'", "localhost"} { // the permissions in docs/providers/mariadb.md
		b.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON lease TO "+role+"@"+host)
		b.exec(t, "GRANT SELECT, INSERT, DELETE ON lease_history TO "+role+"@"+host)
		b.exec(t, "GRANT SELECT, UPDATE ON lease_version TO "+role+"@"+host)
	}
	grant, err := weak.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.NoError(t, weak.Release(bounded(t), releaseOf(grant)))
	_, err = weak.Sweep(bounded(t))
	require.NoError(t, err)
	require.NoError(t, owner.Ping(bounded(t)))
}

func TestURLsThatCannotBe(t *testing.T) {
	for rawURL, want := range map[string]string{
		"postgres://u:geheim@h/d":                "mysql://",
		"mysql://u:geheim@h":                     "database",
		"mysql://u:geheim@/d":                    "database",
		"mysql://u:geheim@h/d?schema=x":          "schema",
		"mysql://u:geheim@h/d?multiStatements=0": "multiStatements",
		"mysql://u:geheim@h/d?charset=gbk":       "charset",
		"mysql://u:geheim@h/d?tls=nobody":        "go-sql-driver",
		"mysql://u:geheim@h/d?pool_max_conns=1":  "MaxConns",
		"mysql://u:geheim@h/d?retention=5":       "retention",
		"mysql://u:12?geheim@h/d":                "%3F",
		"mysql://u:geheim@h/d?dialect=sqlite":    "ialect",
	} {
		_, err := OpenURL(t.Context(), rawURL)
		require.ErrorIs(t, err, abstractions.ErrInvalid, rawURL)
		require.ErrorContains(t, err, want, rawURL)
		require.NotContains(t, err.Error(), "geheim", rawURL)
	}
	for want, o := range map[string]Options{
		"exactly one of URL, or in Go Connector": {}, "Table": {URL: "mysql://h/d", Table: "a b"}, "HistoryRenewals": {URL: "mysql://h/d", HistoryRenewals: true},
	} {
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}
