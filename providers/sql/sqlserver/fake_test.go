package sqlserverlease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"
)

// fakeServer is a connector to a table in memory. It applies the effects of this package's batches, using only their
// parameters. It tests the Go code under faults, and proves nothing about T-SQL.
type fakeServer struct {
	t      testing.TB
	mu     sync.Mutex
	rows   map[string][]driver.Value // of the table of leases, by name, with the columns of insert.sql
	floor  int64                     // the token of the row of the empty name
	notes  int                       // in the history
	ahead  time.Duration             // how far the server's clock is ahead
	early  time.Duration             // from a read's first clock reading to its second
	opened int                       // connections
	empty  bool                      // there are no tables
	lock   int64                     // the answer to a request for the migration lock, as of sp_getapplock
	log    []sent
	fault  func(s *sent) // may set the fields before, refuse, during, after and silent of a batch
}

// sent is a batch that the fake server has received.
type sent struct {
	kind, text string
	args       []driver.Value
	before     func() // runs before the batch
	refuse     error  // the error that is returned instead of executing the batch
	during     func() // runs between the write and the end of its transaction
	after      error  // the error that is returned although the batch was executed
	silent     bool   // the answer has no @written
}

func newFake(t testing.TB) *fakeServer {
	return &fakeServer{t: t, rows: map[string][]driver.Value{}}
}

// open opens a provider with connections of its own to the fake.
func (f *fakeServer) open(o Options) *Provider {
	f.t.Helper()
	o.URL = "sqlserver://fake?database=app"
	_, err := o.complete()
	require.NoError(f.t, err)
	p, err := open(bounded(f.t), o, sessions{f})
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, p.Close()) })
	return p
}

// failKind makes the server call the function do with each batch of a kind.
func (f *fakeServer) failKind(kind string, do func(s *sent)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = func(s *sent) {
		if s.kind == kind {
			do(s)
		}
	}
}

func (f *fakeServer) stopFailing() { f.failKind("", nil) }

// of returns the batches of a kind.
func (f *fakeServer) of(kind string) (all []sent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.log {
		if s.kind == kind {
			all = append(all, s)
		}
	}
	return all
}

func (f *fakeServer) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened
}

func (f *fakeServer) clock() int64 { return time.Now().Add(f.ahead).UnixMicro() }

// Connect implements driver.Connector.
func (f *fakeServer) Connect(context.Context) (driver.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &sent{kind: "connect"}
	if f.fault != nil {
		f.fault(s)
	}
	f.opened++
	return &fakeConn{f: f}, s.refuse
}

// Driver implements driver.Connector.
func (f *fakeServer) Driver() driver.Driver { return nil }

type fakeConn struct {
	f   *fakeServer
	bad bool
}

func (c *fakeConn) Prepare(text string) (driver.Stmt, error) { return &fakeStmt{c, text}, nil }
func (c *fakeConn) PrepareContext(_ context.Context, text string) (driver.Stmt, error) {
	return c.Prepare(text)
}
func (c *fakeConn) Close() error              { return nil }
func (c *fakeConn) Begin() (driver.Tx, error) { return c, nil }
func (c *fakeConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return c, nil
}
func (c *fakeConn) Commit() error                      { return c.run(&sent{kind: "commit"}).after }
func (c *fakeConn) Rollback() error                    { return nil }
func (c *fakeConn) Ping(context.Context) error         { return c.run(&sent{kind: "ping"}).refuse }
func (c *fakeConn) ResetSession(context.Context) error { return nil }
func (c *fakeConn) IsValid() bool                      { return !c.bad }

// CheckNamedValue accepts the values that go-mssqldb accepts.
func (c *fakeConn) CheckNamedValue(v *driver.NamedValue) error {
	return (&mssql.Conn{}).CheckNamedValue(v)
}

func (c *fakeConn) run(s *sent) *sent {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.fault != nil {
		c.f.fault(s)
	}
	c.f.log = append(c.f.log, *s)
	return s
}

type fakeStmt struct {
	c    *fakeConn
	text string
}

func (s *fakeStmt) Close() error                               { return nil }
func (s *fakeStmt) NumInput() int                              { return -1 }
func (s *fakeStmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }
func (s *fakeStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, driver.ErrSkip }

// CheckNamedValue keeps the destination of an output parameter, which go-mssqldb records on its
// connection.
func (s *fakeStmt) CheckNamedValue(v *driver.NamedValue) error {
	if _, out := v.Value.(sql.Out); out {
		return nil
	}
	return s.c.CheckNamedValue(v)
}

func (s *fakeStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	_, err := s.QueryContext(ctx, args)
	return driver.RowsAffected(0), err
}

func (s *fakeStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	batch := &sent{kind: kindOf(s.text), text: s.text}
	var written *int
	for _, arg := range args {
		if out, is := arg.Value.(sql.Out); is {
			require.Equal(s.c.f.t, "written", arg.Name)
			written = out.Dest.(*int)
			continue
		}
		batch.args = append(batch.args, arg.Value)
	}
	if s.c.run(batch); batch.before != nil {
		batch.before()
	}
	if batch.refuse != nil {
		return nil, batch.refuse
	}
	rows, n := s.c.f.execute(batch)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if batch.after != nil {
		return nil, batch.after
	}
	if written != nil && !batch.silent {
		*written = n
	}
	return &fakeRows{rows: rows}, nil
}

type fakeRows struct{ rows [][]driver.Value }

func (r *fakeRows) Columns() []string {
	if len(r.rows) == 0 {
		return nil
	}
	return make([]string, len(r.rows[0]))
}
func (r *fakeRows) Close() error { return nil }
func (r *fakeRows) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(dest, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

// kinds identifies the kind of a batch by a part of its text.
var kinds = []struct{ kind, part string }{
	{"exists", "sys.objects"},
	{"version", "coalesce(max(version), 0)"},
	{"keyed", "sys.indexes"},
	{"lock", "sp_getapplock"},
	{"read", "@floor bigint = 0"},
	{"rows", "l.name IN (@p1"},
	{"list", "l.name >= @p1"},
	{"page", "WHERE l.name > @p1 ORDER"},
	{"renew", "UPDATE l SET version = r.written"},
	{"update", "UPDATE l SET version = @p1"},
	{"insert", "SELECT @p1, @p2, @p3"},
	{"forget", "DELETE l FROM"},
	{"raise", "DECLARE @floor bigint = @p1"},
	{"trim", "DELETE h FROM"},
	{"note", "INSERT INTO [leasing].[lease_history]"},
}

func kindOf(text string) string {
	for _, k := range kinds {
		if strings.Contains(text, k.part) {
			return k.kind
		}
	}
	return "other"
}

// The numbers of parameters of a row, and of a renewal or a history entry.
const (
	rowArgs  = 14
	itemArgs = 8
)

// execute runs a batch, and returns its rows and @written.
func (f *fakeServer) execute(s *sent) (rows [][]driver.Value, written int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch s.kind {
	case "exists", "keyed":
		return [][]driver.Value{{!f.empty}}, 0
	case "version":
		return [][]driver.Value{{int64(1)}}, 0
	case "lock":
		return [][]driver.Value{{f.lock}}, 0
	case "read":
		now := f.clock()
		row, there := f.rows[nameIn(s.args[0])]
		if !there {
			row = []driver.Value{nil, int64(0), int64(0), "", "", nil, "{}", nil, int64(0), false, "", "", []byte{}, ""}
		}
		return [][]driver.Value{append(slices.Clone(row[1:]), "", int64(0), now-f.early.Microseconds(), now, f.floor)}, 0
	case "rows", "list", "page":
		now := f.clock()
		for _, name := range slices.Sorted(maps.Keys(f.rows)) {
			asked := slices.ContainsFunc(s.args, func(arg driver.Value) bool { b, _ := arg.([]byte); return string(b) == name })
			if asked == (s.kind == "rows") && name != "" {
				rows = append(rows, append(slices.Clone(f.rows[name]), "", int64(0), now, now, int64(0)))
			}
		}
		return rows, 0
	case "note":
		f.notes += len(s.args) / itemArgs
		return nil, len(s.args) / itemArgs
	case "insert", "update", "renew":
		return nil, f.write(s)
	case "raise":
		f.floor = max(f.floor, s.args[0].(int64))
	case "forget":
		for i := 0; i < len(s.args); i += 2 {
			if row, there := f.rows[nameIn(s.args[i])]; there && row[1] == s.args[i+1] {
				delete(f.rows, nameIn(s.args[i]))
				written++
			}
		}
	}
	return nil, written
}

// write runs a transaction, with its two readings of the clock.
func (f *fakeServer) write(s *sent) (written int) {
	began, before := f.clock(), maps.Clone(f.rows)
	rest := s.args[rowArgs:]
	switch s.kind {
	case "insert":
		name := nameIn(s.args[0])
		if _, there := f.rows[name]; there {
			s.after = mssql.Error{Number: 2627, Class: 14, Message: "Violation of PRIMARY KEY constraint"}
			return 0
		}
		if f.floor <= rest[0].(int64) {
			f.rows[name] = slices.Clone(s.args[:rowArgs])
			written = 1
		}
		rest = rest[1:]
	case "update":
		name, until := nameIn(s.args[13]), rest[3].(int64)
		row := f.rows[name]
		if row != nil && row[1] == rest[0] && row[2] == rest[1] && row[3] == rest[2] && began < until {
			f.rows[name] = append([]driver.Value{row[0]}, s.args[:rowArgs-1]...)
			written = 1
		}
		rest = rest[4:]
	case "renew":
		items := len(s.args) / itemArgs
		for item := range slices.Chunk(s.args[:items*itemArgs], itemArgs) {
			name, until := nameIn(item[0]), s.args[items*itemArgs].(int64)
			row := slices.Clone(f.rows[name])
			if row != nil && row[1] == item[1] && row[2] == item[2] && row[3] == item[3] && began < until {
				row[1], row[5], row[6], row[8] = item[4], item[5], item[6], item[7]
				f.rows[name] = row
				written++
			}
		}
		rest = s.args[items*itemArgs+1:]
	}
	entries := (len(rest) - 2) / itemArgs
	if s.during != nil {
		s.during()
	}
	wanted, until := rest[len(rest)-2], rest[len(rest)-1].(int64)
	if int64(written) != number(wanted) || f.clock() >= until {
		f.rows = before
		return 0
	}
	f.notes += entries
	return written
}

func nameIn(v driver.Value) string { return string(v.([]byte)) } // it panics unless the parameter is varbinary

func number(v driver.Value) int64 {
	if n, short := v.(int); short {
		return int64(n)
	}
	return v.(int64)
}

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func claimOf(name string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "tester", TTL: ttl}
}

func renewalOf(g abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL}
}

func releaseOf(g abstractions.Grant) abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token}
}
