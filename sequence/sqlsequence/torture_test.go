package sqlsequence

import (
	"database/sql"
	"os"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/sequence/sequencetest"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// options are those of a short run, or of one of two minutes with LEASING_TEST_SLOW.
func options() sequencetest.TortureOptions {
	o := sequencetest.TortureOptions{For: 5 * time.Second, Writers: 16, Cleaners: 6, Readers: 3, Lease: 300 * time.Millisecond, Seed: uint64(time.Now().UnixNano())}
	if os.Getenv("LEASING_TEST_SLOW") != "" {
		o.For = 2 * time.Minute
	}
	return o
}

func TestTorture_sqlite(t *testing.T) {
	h := sequencetest.Torture(t, sequencetest.Database[*sql.Tx](newSqlite(t)), options(), nil)
	t.Log(h)
	require.Empty(t, h.Check())
}

func TestTorture_postgres(t *testing.T) {
	h := sequencetest.Torture(t, sequencetest.Database[pgx.Tx](newPool(t)), options(), nil)
	t.Log(h)
	require.Empty(t, h.Check())
}
