package sequence_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/memsequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Of three operations, one commits, one dies with its work saved, and one gives up. A cleaner recovers
// the saved work, and a reader sees an entry for every number.
func Example() {
	ctx, store := context.Background(), memsequence.New() // in production: sqlsequence.OpenPostgres, OpenPool, OpenSQLite
	if err := store.CreateStream(ctx, "ledger"); err != nil {
		log.Fatal(err)
	}
	ledger, err := sequence.NewStream(store, "ledger", sequence.Options[memsequence.Tx]{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = ledger.Close(ctx) }()

	// The first operation's process dies: its lease is no longer renewed.
	dead, err := store.Lease(ctx, seqstore.LeaseRequest{Stream: "ledger", Op: "transfer-1", Duration: time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	err = store.Save(ctx, seqstore.SaveRequest{Stream: "ledger", Seq: dead.Seq, Token: dead.Token, Work: sequence.Work{Phase: sequence.Completed, Data: []byte("10 to Ann")}})
	if err != nil {
		log.Fatal(err)
	}

	err = ledger.Do(ctx, sequence.Operation{ID: "transfer-2"}, func(ctx context.Context, n *sequence.Number[memsequence.Tx]) error {
		return n.Commit(ctx, []byte("20 to Bob"), nil) // in a database, the last argument is the caller's own write
	})
	fmt.Println("transfer-2:", err)
	err = ledger.Do(ctx, sequence.Operation{ID: "transfer-3"}, func(context.Context, *sequence.Number[memsequence.Tx]) error {
		return errors.New("not enough money")
	})
	fmt.Println("transfer-3:", err)

	cleaner, err := sequence.NewCleaner(store, "ledger", sequence.CleanerOptions[memsequence.Tx]{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = cleaner.Close(ctx) }()
	<-time.After(5 * time.Millisecond)
	if _, err := cleaner.Sweep(ctx); err != nil { // Run calls Sweep at intervals
		log.Fatal(err)
	}

	for e, err := range (sequence.Reader{Records: store, Stream: "ledger"}).Read(ctx, 1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s %q origin=%d replaced_by=%d\n", e.Seq, e.State, e.Payload, e.Origin, e.ReplacedBy)
	}
	// Output:
	// transfer-2: <nil>
	// transfer-3: not enough money
	// 1 recovered "" origin=0 replaced_by=4
	// 2 committed "20 to Bob" origin=0 replaced_by=0
	// 3 gap "" origin=0 replaced_by=0
	// 4 committed "10 to Ann" origin=1 replaced_by=0
}
