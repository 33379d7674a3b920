package sqlfence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder is a database/sql driver that logs its requests and answers the check with the larger of
// the request's token and the highest token seen.
type recorder struct {
	seen int64
	fail map[string]error // by the first word of the log entry

	mu      sync.Mutex
	entries []string
}

func open(t *testing.T, r *recorder) *sql.DB {
	db := sql.OpenDB(r)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (r *recorder) log() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.entries)
}

func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = nil
}

func (r *recorder) record(entry string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, entry)
	return r.fail[strings.Fields(entry)[0]]
}

func (r *recorder) Connect(context.Context) (driver.Conn, error) { return conn{r}, nil }
func (r *recorder) Driver() driver.Driver                        { return nil }

type conn struct{ r *recorder }

func (c conn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }
func (c conn) Close() error                        { return nil }
func (c conn) Begin() (driver.Tx, error)           { return c, c.r.record("BEGIN") }
func (c conn) Commit() error                       { return c.r.record("COMMIT") }
func (c conn) Rollback() error                     { return c.r.record("ROLLBACK") }

func (c conn) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), c.r.record(query)
}

func (c conn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if !strings.HasPrefix(query, `INSERT INTO "fencing"`) {
		return nil, fmt.Errorf("unexpected query %q", query)
	}
	token := args[1].Value.(int64)
	if err := c.r.record(fmt.Sprintf("ADVANCE %v %d", args[0].Value, token)); err != nil {
		return nil, err
	}
	return &oneRow{value: max(token, c.r.seen)}, nil
}

type oneRow struct {
	value int64
	read  bool
}

func (o *oneRow) Columns() []string { return []string{"token"} }
func (o *oneRow) Close() error      { return nil }
func (o *oneRow) Next(dest []driver.Value) error {
	if o.read {
		return io.EOF
	}
	o.read = true
	dest[0] = o.value
	return nil
}
