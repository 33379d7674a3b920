package sqlsequence

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// connectWith connects with a setting that a role or a database may have as its default.
func connectWith(t *testing.T, parameter, value string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(postgresURL(t))
	require.NoError(t, err)
	config.RuntimeParams[parameter] = value
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// If client_encoding could differ, one operation would have two numbers.
func TestTrap_T104_OperationsAreInOneEncoding_postgres(t *testing.T) {
	p := newPostgres(t)
	store := p.Open(t)
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	req := seqstore.LeaseRequest{Stream: "s", Op: "größe", Duration: time.Minute}
	first, err := store.Lease(t.Context(), req)
	require.NoError(t, err)
	for encoding, want := range map[string]error{"LATIN1": leasing.ErrNotSetUp, "SQL_ASCII": nil, "UTF8": nil} {
		other, err := OpenPostgres(connectWith(t, "client_encoding", encoding), Options{Schema: p.schema})
		require.NoError(t, err)
		again, err := other.Lease(t.Context(), req)
		require.ErrorIs(t, err, want, "%s: number %d", encoding, again.Seq)
		require.ErrorIs(t, other.Migrate(t.Context()), want)
		if want == nil {
			require.Equal(t, first.Seq, again.Seq, "one operation has one number")
		}
		require.NoError(t, other.Close())
	}
}

// Processes that change the same row wait for each other, even if transactions are serializable by
// default.
func TestSerializableByDefault_postgres(t *testing.T) {
	p := newPostgres(t)
	require.NoError(t, p.Open(t).CreateStream(t.Context(), "s"))
	var all sync.WaitGroup
	for w := range 4 {
		store, err := OpenPostgres(connectWith(t, "default_transaction_isolation", "serializable"), Options{Schema: p.schema, Audit: true})
		store = migrated(t, store, err)
		all.Go(func() {
			for i := range 50 {
				e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: fmt.Sprint(w, " ", i), Duration: time.Minute})
				if !assert.NoError(t, err) {
					return
				}
				_, err = store.Commit(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, nil)
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
}
