// Command sequence is a writer of a ledger: it writes transfers, each under the next number of one stream. Start it several
// times, each with a journal of its own, and kill a process. "make sequence" does that, and checks the outcome:
// integration/scenarios.
//
//	go run ./sequence                                     # leases and data in SQLite files of this folder
//	go run ./sequence -url postgres://... -data postgres://...
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/app"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/sqlsequence"
)

var (
	journal = flag.String("journal", "journal", "file of this process, for results that can't reach the database")
	schema  = flag.String("schema", "", "schema of the numbers, on PostgreSQL")
)

// stream is the name of the sequence. leaseFor is the initial duration of a number's lease, and transfers is the
// number of transfers that each process writes.
const (
	stream    = "ledger"
	leaseFor  = 3 * time.Second
	transfers = 20
)

func main() { app.Main("ledger", write) }

// write settles the results that an earlier process has left in its journal, and writes transfers.
func write(ctx context.Context, a *app.App) (err error) {
	store, err := openStore(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	file, err := sequence.OpenJournal(*journal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s, err := sequence.NewStream(store, stream, sequence.Options[*sql.Tx]{Write: insert, Journal: file, Lease: leasing.Options{Owner: a.Owner}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	settled, err := s.Sync(ctx)
	for _, result := range settled {
		slog.Info("has settled a result of its journal", "number", result.Seq, "settled", result.Settlement)
	}
	for i := 1; i <= transfers && err == nil; i++ {
		err = transfer(ctx, s, fmt.Sprintf("%s/%d", a.Owner, i), i%10 != 0)
	}
	return err
}

// openStore opens the store of the numbers in the ledger's database, so that one transaction can write both.
func openStore(ctx context.Context, a *app.App) (store *sqlsequence.Store[*sql.Tx], err error) {
	if a.OnPostgres() {
		store, err = sqlsequence.OpenPostgres(a.DB, sqlsequence.Options{Schema: *schema})
	} else {
		store, err = sqlsequence.OpenSQLite(a.DB, sqlsequence.Options{})
	}
	if err != nil {
		return nil, err
	}
	return store, a.Manager.Do(ctx, a.Name+"/tables", func(ctx context.Context, _ *leasing.Lease) error {
		_, err := a.DB.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS transfers (seq bigint PRIMARY KEY, op text NOT NULL UNIQUE, entry text NOT NULL)")
		return errors.Join(err, store.Migrate(ctx), store.CreateStream(ctx, stream))
	})
}
