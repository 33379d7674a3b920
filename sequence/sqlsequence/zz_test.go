package sqlsequence
import "github.com/jackc/pgx/v5"
type PT = pgx.Tx
import ("testing";"github.com/stretchr/testify/require")
func TestZZ(t *testing.T) {
	p := newPool(t)
	o, err := OpenPool(p.pool, Options{Schema: p.schema})
	store := migrated(t, o, err)
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	closeEntries_postgres(t, p.schema, 1_000_000)
	for range 8 {
	t.Log(planOfX(t, store, "EXPLAIN (ANALYZE, BUFFERS) "+store.sql.entries, []any{"s", int64(999980), int64(1000000), 20}))
	}
}
func planOfX(t *testing.T, s any, statement string, args []any) string { switch s := s.(type) { case *Store[PT]: return planOf(t, s, statement, args, 1) }; return "" }
