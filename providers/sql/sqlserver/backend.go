package sqlserverlease

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// backend is the backend of SQL Server. A row is read, the rules decide, and one batch writes the row under the condition that
// its version, token and ID are still the same: no lock is held while the server waits for a client, which may be paused for
// good. See the package documentation.
//
// A deadline counts from the read's clock reading, which is taken before the row is read. By the time of the write this reading
// is in the past, which frees no name early: a lease that had run out at the reading is still over at the write.
type backend struct {
	*dialect.RowStore
	dialect.Limited // except for renewals
	db              database
}

// errNoAnswer is the error of a batch that has ended without its answer. It leaves the outcome unknown.
var errNoAnswer = errors.New("the server did not return the number of rows that it has written")

// change runs a batch that sets @written, and returns @written.
func change(ctx context.Context, on dialect.Statements, statement string, args ...any) (int, error) {
	written := -1
	err := on.Query(ctx, statement, append(args, sql.Named("written", sql.Out{Dest: &written})), nil)
	switch {
	case err != nil:
		return 0, err
	case written < 0:
		return 0, errNoAnswer
	}
	return written, nil
}

// counting follows a statement whose rows are counted.
const counting = ";\nSET @written = @@ROWCOUNT"

// transaction returns a batch that writes the rows of a statement and the entries of the history. It commits if the statement has
// written a given number of rows before a given time. Its arguments are those of the statement and of the entries, and then the
// number and the time.
func (b *backend) transaction(statement string, entries int) string {
	noted := ""
	if entries > 0 {
		noted = "IF @written > 0 " + dialect.Repeated(entries, b.SQL["note"]) + ";\n"
	}
	return "BEGIN TRANSACTION;\n" + statement + counting + ";\n" + noted + b.SQL["commit"]
}

func (b *backend) Change(ctx context.Context, name, id string, rule func(*dialect.Row) providerkit.Change) (dialect.Applied, error) {
	return b.changeOn(ctx, b, name, id, rule)
}

// changeOn starts over if the row has changed since it was read. Each lost race means that another claim
// has made a change.
func (b *backend) changeOn(ctx context.Context, on dialect.Statements, name, id string, rule func(*dialect.Row) providerkit.Change) (done dialect.Applied, err error) {
	for n, inserted := 0, 0; n == 0 && err == nil; {
		var r *dialect.Row
		if r, err = b.Find(ctx, on, name, id, b.Clock()); err != nil {
			break
		}
		met := metIn(r)
		if done, _ = b.Decide(r, rule); !done.Write {
			break
		}
		if r.ID != met.id {
			met.until = forever
		}
		n, err = b.write(ctx, on, r, met, b.Record.Kept(name, &done.Change))
		if duplicate(err) && inserted < repetitions { // beyond that, no read shows the row with this key
			inserted++
			err = nil
		}
	}
	return done, err
}

// met is the part of a row on which a write depends.
type met struct {
	token, floor, until int64
	id                  string
}

func metIn(r *dialect.Row) met { return met{r.Token, r.Floor, until(r), r.ID} }

// write makes a change while the clock is before met.until. It returns 0 if the row has changed since it was read. If the row was
// inserted since then, the error is a duplicate.
func (b *backend) write(ctx context.Context, on dialect.Statements, r *dialect.Row, met met, notes []abstractions.NamedEntry) (int, error) {
	before := r.Encode()
	statement, args := b.SQL["insert"], r.Columns()[:columnsStored]
	if before == 0 {
		args = append(args, met.floor)
	} else {
		statement, args = b.SQL["update"], append(args[1:], r.Name, before, met.token, met.id, met.until)
	}
	args = append(args, noteArgs(notes)...)
	return change(ctx, on, b.transaction(statement, len(notes)), append(args, 1, met.until)...)
}

func noteArgs(entries []abstractions.NamedEntry) (args []any) {
	for i := range entries {
		args = append(args, dialect.NoteArgs(&entries[i])...)
	}
	return args
}

// The server accepts 2,100 parameters in a batch, and a renewal or an entry has 8:
// https://learn.microsoft.com/sql/sql-server/maximum-capacity-specifications-for-sql-server.
const mostItems = 256

// Renew reads all the rows and writes all renewals that the rules allow, in two batches. If a row is locked or has changed, each
// half runs alone. If the history records renewals, each claim runs alone.
func (b *backend) Renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) (results []abstractions.RenewResult, err error) {
	on := b.db
	if !wait {
		on.wait = withoutWaiting
	}
	if len(reqs) == 1 {
		done, err := b.changeOn(ctx, on, reqs[0].Name, reqs[0].ID, func(r *dialect.Row) providerkit.Change { return r.Renew(reqs[0]) })
		if err != nil { // it may have been rolled back
			return nil, err
		}
		return []abstractions.RenewResult{done.Renewed(reqs[0].TTL)}, nil
	}
	if !b.Record.Renewals && len(reqs) <= mostItems {
		results, err = b.renewMany(ctx, on, reqs)
		if results != nil || err != nil && (b.Verdict(err).Class != providerkit.Refused || ctx.Err() != nil) {
			return results, err
		}
	}
	for _, half := range [][]abstractions.RenewRequest{reqs[:len(reqs)/2], reqs[len(reqs)/2:]} {
		some, err := b.Renew(ctx, half, wait)
		if err != nil {
			some = slices.Repeat([]abstractions.RenewResult{{Err: err}}, len(half))
		}
		results = append(results, some...)
	}
	return results, nil
}

// renewMany returns nil unless all renewals that the rules allow were written.
func (b *backend) renewMany(ctx context.Context, on dialect.Statements, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	names, order := make([]any, len(reqs)), make([]int, len(reqs))
	for i := range reqs {
		names[i], order[i] = reqs[i].Name, i
	}
	rows, err := b.Rows(ctx, on, names)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(order, func(x, y int) int { return strings.Compare(reqs[x].Name, reqs[y].Name) }) // the likely order of locks
	results, renewed, args, first := make([]abstractions.RenewResult, len(reqs)), 0, []any{}, int64(forever)
	for _, i := range order {
		r := rows[reqs[i].Name]
		delete(rows, reqs[i].Name)
		if r == nil { // missing, or twice in the batch
			return nil, nil
		}
		end := until(r)
		r.Settle(reqs[i].ID)
		done, _ := b.Decide(r, func(r *dialect.Row) providerkit.Change { return r.Renew(reqs[i]) })
		if results[i] = done.Renewed(reqs[i].TTL); done.Err == nil {
			renewed++
			first = min(first, end)
			before := r.Encode()
			args = append(args, r.Name, before, r.Token, r.ID, r.Version, r.TTLMicros, r.MetadataText, r.Ends.Wall)
		}
	}
	if renewed == 0 {
		return results, nil
	}
	statement := b.transaction(dialect.Repeated(renewed, b.SQL["renew"]), 0)
	if n, err := change(ctx, on, statement, append(args, first, renewed, first)...); err != nil || n < renewed {
		return nil, err
	}
	return results, nil
}

// forever is a time in microseconds that never comes.
const forever = math.MaxInt64

// until returns the time before which a change of the holder's claim has to be written.
func until(r *dialect.Row) int64 {
	if !r.Held() || r.Ends.Wall == 0 {
		return forever
	}
	return r.Ends.Wall
}

// Lives returns true, since it is unknown whether a process lives.
func (b *backend) Lives(string) bool { return true }

// Sweep deletes the rows of its page that have not changed since they were read.
func (b *backend) Sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error) {
	return b.SweepPage(ctx, b, after, limit, idle, func(old []*dialect.Row) (int, error) {
		var args []any
		for _, r := range old {
			args = append(args, r.Name, r.Version)
		}
		return change(ctx, b, dialect.Repeated(len(old), b.SQL["forget"])+counting, args...)
	})
}

// WriteHistory appends entries. If they do not fit in one batch, it uses a transaction of several
// batches.
func (b *backend) WriteHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	note := func(on dialect.Statements, some []abstractions.NamedEntry) error {
		return dialect.Run(ctx, on, dialect.Repeated(len(some), b.SQL["note"]), noteArgs(some)...)
	}
	switch {
	case len(entries) == 0:
		return nil
	case len(entries) <= mostItems:
		return note(b, entries)
	}
	return b.db.transact(ctx, func(on dialect.Statements) error {
		for some := range slices.Chunk(entries, mostItems) {
			if err := note(on, some); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *backend) SweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	return change(ctx, b, b.SQL["trim"]+counting, limit, b.Record.Retention.Microseconds())
}

// Version also checks that the table of leases has its key, which keeps two claims from inserting one name.
func (b *backend) Version(ctx context.Context) (version int, err error) {
	version, err = b.Tables.Installed(ctx, b)
	if err != nil || version == 0 {
		return version, err
	}
	var keyed bool
	if err = b.Query(ctx, b.SQL["keyed"], nil, func(scan dialect.Scan) error { return scan(&keyed) }); err == nil && !keyed {
		err = fmt.Errorf("%w: there is no table %s with its primary key", abstractions.ErrNotSetUp, b.Tables.Name(""))
	}
	return version, err
}

// Migrate runs in one transaction under a lock of the database, so that processes that start together migrate one after the other.
func (b *backend) Migrate(ctx context.Context) error {
	return b.db.transact(ctx, func(on dialect.Statements) error {
		locked := -1
		err := on.Query(ctx, b.SQL["lock"], []any{"leasing." + b.Tables.Schema}, func(scan dialect.Scan) error { return scan(&locked) })
		if err == nil && locked < 0 {
			err = fmt.Errorf("%w: another process is making the tables", abstractions.ErrUnavailable)
		}
		if err == nil {
			err = b.Tables.Install(ctx, on, b.Tables.Create)
		}
		return err
	})
}

func (b *backend) Verdict(err error) sqlkit.Verdict { return verdict(err) }

func (b *backend) Close() error {
	b.Wakeups.Close()
	if b.db.own {
		_ = b.db.Close() // an error only means that a connection has already ended
	}
	return nil
}

// files has the statements of this dialect.
//
//go:embed statements/*.sql
var files embed.FS

// tablesOf fills in the statements for one table. Times are in microseconds since 1970, of UTC.
func tablesOf(schema, table string) dialect.Tables {
	return dialect.NewTables(schema, table, "[]", map[string]string{
		"namespace": schema,
		// DATEDIFF would overflow after 36 minutes.
		"clock": "DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME())",
		// A row made by hand may have the version 0, which stands for no row.
		"was": "CASE WHEN l.version < 1 THEN 1 ELSE l.version END",
		// Columns in the order of Row.Columns, after the name. Only read.sql has the second clock and the floor.
		"row": `{{was}}, l.token, l.id, l.owner, l.ttl_us, l.metadata, l.acquired_us, l.expires_us, l.breaking, l.broken_by, l.break_reason,
	l.ended, l.waiters, N'', CAST(0 AS bigint), @start, @start, CAST(0 AS bigint)`,
	}, dialect.RowStatements, files)
}

// columnsRead is the number of Row.Columns that are read, and columnsStored the number that are stored.
const columnsRead, columnsStored = 19, 14
