package sqlserverlease

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

// sqlserverURL returns the URL of a user who may create databases.
func sqlserverURL(t testing.TB) string {
	t.Helper()
	return servertest.Require(t, "LEASING_TEST_SQLSERVER")
}

// bed is a test's own database on a server, with row versions "ON", as in Azure SQL Database, or "OFF", as by default on a
// server.
type bed struct {
	url string
	db  *sql.DB // to the database
}

func newBed(t testing.TB, versions string) *bed {
	server := sqlserverURL(t)
	u, err := url.Parse(server)
	require.NoError(t, err)
	admin, err := sql.Open("sqlserver", server)
	require.NoError(t, err)
	name := unique()
	_, err = admin.ExecContext(bounded(t), "CREATE DATABASE "+name)
	require.NoError(t, err)
	query := u.Query()
	query.Set("database", name)
	u.RawQuery = query.Encode()
	db, err := sql.Open("sqlserver", u.String())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = db.Close()
		_, err := admin.ExecContext(bounded(t), "ALTER DATABASE "+name+" SET SINGLE_USER WITH ROLLBACK IMMEDIATE; DROP DATABASE "+name)
		require.NoError(t, err)
		_ = admin.Close()
	})
	b := &bed{u.String(), db}
	b.exec(t, "ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT "+versions+" WITH ROLLBACK IMMEDIATE")
	return b
}

func unique() string { return "leasing_" + strings.ToLower(rand.Text()[:12]) }

func (b *bed) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	_, err := b.db.ExecContext(bounded(t), statement, args...)
	require.NoError(t, err, statement)
}

func (b *bed) open(t testing.TB, parameters ...string) *Provider {
	t.Helper()
	p, err := OpenURL(bounded(t), b.url+"&"+strings.Join(append([]string{"create=true"}, parameters...), "&"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// The suite runs on the server that the variable names, with and without row versions. Each provider has a schema of its own.
func TestConformance_sqlserver(t *testing.T) {
	sqlserverURL(t) // skips here rather than in each check
	for how, c := range map[string]struct {
		versions   string
		parameters []string
	}{
		"locks":    {"OFF", nil},
		"versions": {"ON", nil},
		"history":  {"OFF", []string{"history=true", "history_renewals=true"}},
	} {
		t.Run(how, func(t *testing.T) {
			b := newBed(t, c.versions)
			var schemas sync.Map // by provider
			of := func(p abstractions.Provider) string { schema, _ := schemas.Load(p); return schema.(string) }
			with := func(schema string, more ...string) []string {
				return append(append([]string{"schema=" + schema}, c.parameters...), more...)
			}
			providertest.Run(t, providertest.Harness{
				New: func(t testing.TB) abstractions.Provider {
					schema := unique()
					p := b.open(t, with(schema)...)
					schemas.Store(p, schema)
					return p
				},
				Peer: func(t testing.TB, p abstractions.Provider) abstractions.Provider { return b.open(t, with(of(p))...) },
				Forget: func(t testing.TB, p abstractions.Provider, name string) {
					sweeper := b.open(t, with(of(p), "retention=1ms")...)
					for {
						_, err := sweeper.Sweep(bounded(t))
						require.NoError(t, err)
						record, err := p.Inspect(bounded(t), abstractions.InspectRequest{Name: name})
						require.NoError(t, err)
						if record.Token == 0 {
							return
						}
					}
				},
				Remove: func(t testing.TB, p abstractions.Provider, name string) {
					b.exec(t, "DELETE FROM "+of(p)+".lease WHERE name = @p1", []byte(name))
				},
				Ahead: func(t testing.TB, p abstractions.Provider, name string) {
					b.exec(t, "UPDATE "+of(p)+".lease SET token = token + 3600000000, version = version + 1 WHERE name = @p1", []byte(name))
				},
				Remembers:   64,
				Unreachable: silentProvider,
			})
		})
	}
}

// lock locks the row of a name for another transaction.
func (b *bed) lock(t *testing.T, name string) (unlock func()) {
	t.Helper()
	tx, err := b.db.BeginTx(bounded(t), nil)
	require.NoError(t, err)
	_, err = tx.Exec("UPDATE leasing.lease SET version = version WHERE name = @p1", []byte(name))
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback()) }
}

// T293 on a server. A renewal that has waited beyond its claim's end comes too late.
func TestTrap_T293_ARenewalThatWaitsTooLong_sqlserver(t *testing.T) {
	b := newBed(t, "ON") // only the write waits
	p := b.open(t)
	for {
		grant, err := p.Acquire(bounded(t), claimOf(abstractions.NewID(), 400*time.Millisecond))
		require.NoError(t, err)
		unlock := b.lock(t, grant.Name)
		renewed := make(chan error, 1)
		go func() {
			_, err := p.Renew(bounded(t), renewalOf(grant))
			renewed <- err
		}()
		<-time.After(700 * time.Millisecond) // only the server's clock decides when the lease is over
		unlock()
		if err := <-renewed; !errors.Is(err, abstractions.ErrThrottled) { // the machine was fast enough, and the wait did not time out
			require.ErrorIs(t, err, abstractions.ErrLost)
			return
		}
	}
}

// T299 on a server: names that are equal under a collation, or after padding, are different names.
func TestTrap_T299_NamesAreComparedByteByByte_sqlserver(t *testing.T) {
	p := newBed(t, "OFF").open(t)
	names := []string{"a", "A", "a ", " a", "ä", "a\u0308", "a%", "a'; DROP TABLE leasing.lease; --", strings.Repeat("x", abstractions.MaxNameBytes)}
	var batch []abstractions.RenewRequest
	for _, name := range names {
		grant, err := p.Acquire(bounded(t), claimOf(name, time.Minute))
		require.NoError(t, err, name)
		batch = append(batch, renewalOf(grant))
	}
	results, err := p.RenewBatch(bounded(t), batch)
	require.NoError(t, err)
	for i, result := range results {
		require.NoError(t, result.Err, names[i])
	}
	page, err := p.List(bounded(t), abstractions.ListRequest{HeldOnly: true})
	require.NoError(t, err)
	require.Len(t, page.Records, len(names))
}

// Processes that start together create the tables once.
func TestMigration_sqlserver(t *testing.T) {
	b := newBed(t, "OFF")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			p, err := OpenURL(bounded(t), b.url+"&create=true")
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			if err := p.Ping(bounded(t)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
