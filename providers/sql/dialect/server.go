package dialect

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// ServerStore is a [RowStore] over a server, for MySQL and SQL Server. A row is read, the rules decide, and one request writes the
// row on condition that it has not changed. So no lock is held while the server waits for a client, which may never continue.
//
// A deadline counts from a clock reading that is taken before the row is read. By the time of the write this reading is in the
// past. This does not free a name early: a lease that had run out at the reading has also run out at the write.
type ServerStore struct {
	*RowStore
	Limited // except for renewals
	in      ServerDialect
	most    int // the highest number of claims that renew together
}

// ServerDialect is the part of a [ServerStore] that differs between dialects.
type ServerDialect interface {
	// Renewing returns the statements of renewals. Unless wait is set they fail if another transaction has locked a row.
	Renewing(wait bool) Statements
	// Write writes a changed row, and the entries of the history. n is 0 if the row has changed since it was read.
	Write(ctx context.Context, on Statements, w Write, notes []abstractions.NamedEntry) (n int, err error)
	// WriteAll writes renewed rows, and returns the number of rows that had not changed. It may write only some of the rows.
	WriteAll(ctx context.Context, on Statements, all []Write) (n int, err error)
	// Raced reports whether the error of a write means a lost race. times is the number of earlier lost races of this
	// request.
	Raced(err error, times int) bool
	// Verdict judges an error, as in [Backend].
	Verdict(err error) sqlkit.Verdict
}

// Write is a row to write, and the values from the read that the write depends on. Version is 0 if there was no row.
type Write struct {
	Row                   *Row
	Version, Token, Floor int64
	ID                    string
	Until                 int64 // the time before which the row has to be written, in microseconds since 1970
}

// forever is a time in microseconds that never comes.
const forever = math.MaxInt64

// ServerColumns is the number of Row.Columns that a server stores.
const ServerColumns = 14

// serverColumnsRead is the number of Row.Columns that a server returns.
const serverColumnsRead = 19

// NewServerStore returns the store of a server's dialect, whose waiters poll. most is the highest number of claims that
// renew together; a larger batch is renewed in halves.
func NewServerStore(s *Store, in ServerDialect, on Limited, most int) *ServerStore {
	r := &ServerStore{Limited: on, in: in, most: most}
	r.RowStore = NewRowStore(s, r, func() hostclock.Time { return hostclock.Time{} }, serverColumnsRead,
		func(context.Context, *Wakeups) (wakeup.Connection, error) { return nil, ErrPolls })
	return r
}

// Lives returns true, since it is unknown whether the process is alive.
func (s *ServerStore) Lives(string) bool { return true }

// Change implements [RowDialect].
func (s *ServerStore) Change(ctx context.Context, name, id string, rule func(*Row) providerkit.Change) (Applied, error) {
	return s.changeOn(ctx, s, name, id, rule)
}

// changeOn starts over if the row has changed since it was read. Each lost race means that another claim
// has made a change.
func (s *ServerStore) changeOn(ctx context.Context, on Statements, name, id string, rule func(*Row) providerkit.Change) (done Applied, err error) {
	for n, raced := 0, 0; n == 0 && err == nil; {
		var r *Row
		if r, err = s.Find(ctx, on, name, id, s.Clock()); err != nil {
			break
		}
		w := writeOf(r)
		if done, _ = s.Decide(r, rule); !done.Write {
			break
		}
		if r.ID != w.ID {
			w.Until = forever
		}
		w.Version = r.Encode()
		n, err = s.in.Write(ctx, on, w, s.Record.Kept(name, &done.Change))
		if err != nil && s.in.Raced(err, raced) {
			raced++
			err = nil
		}
	}
	return done, err
}

// writeOf returns the write of a row that was read. A change of the holder's claim has to be written before the claim
// has run out.
func writeOf(r *Row) Write {
	w := Write{Row: r, Token: r.Token, Floor: r.Floor, ID: r.ID, Until: r.Ends.Wall}
	if !r.Held() || r.Ends.Wall == 0 {
		w.Until = forever
	}
	return w
}

// Renew reads all the rows and writes all renewals that the rules allow, in two requests. If a row is locked or has changed, each
// half of the batch is sent separately, which may renew some claims twice. If the history records renewals, each claim is sent
// separately.
func (s *ServerStore) Renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) (results []abstractions.RenewResult, err error) {
	on := s.in.Renewing(wait)
	if len(reqs) == 1 {
		done, err := s.changeOn(ctx, on, reqs[0].Name, reqs[0].ID, func(r *Row) providerkit.Change { return r.Renew(reqs[0]) })
		if err != nil { // the write may have been rolled back
			return nil, err
		}
		return []abstractions.RenewResult{done.Renewed(reqs[0].TTL)}, nil
	}
	if !s.Record.Renewals && len(reqs) <= s.most {
		results, err = s.renewMany(ctx, on, reqs)
		if results != nil || err != nil && (s.in.Verdict(err).Class != providerkit.Refused || ctx.Err() != nil) {
			return results, err
		}
	}
	for _, half := range [][]abstractions.RenewRequest{reqs[:len(reqs)/2], reqs[len(reqs)/2:]} {
		some, err := s.Renew(ctx, half, wait)
		if err != nil {
			some = slices.Repeat([]abstractions.RenewResult{{Err: err}}, len(half))
		}
		results = append(results, some...)
	}
	return results, nil
}

// renewMany returns nil unless all renewals that the rules allow were written.
func (s *ServerStore) renewMany(ctx context.Context, on Statements, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	names, order := make([]any, len(reqs)), make([]int, len(reqs))
	for i := range reqs {
		names[i], order[i] = reqs[i].Name, i
	}
	rows, err := s.Rows(ctx, on, names)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(reqs[a].Name, reqs[b].Name) }) // so that all batches lock rows in the same order
	results, renewed := make([]abstractions.RenewResult, len(reqs)), []Write{}
	for _, i := range order {
		r := rows[reqs[i].Name]
		delete(rows, reqs[i].Name)
		if r == nil { // missing, or twice in the batch
			return nil, nil
		}
		w := writeOf(r)
		r.Settle(reqs[i].ID)
		done, _ := s.Decide(r, func(r *Row) providerkit.Change { return r.Renew(reqs[i]) })
		if results[i] = done.Renewed(reqs[i].TTL); done.Err == nil {
			w.Version = r.Encode()
			renewed = append(renewed, w)
		}
	}
	if len(renewed) == 0 {
		return results, nil
	}
	if n, err := s.in.WriteAll(ctx, on, renewed); err != nil || n < len(renewed) {
		return nil, err
	}
	return results, nil
}
