// The first program of a user of sequence. It commits one operation under its number.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/memsequence"
)

func main() {
	ctx, store := context.Background(), memsequence.New()
	if err := store.CreateStream(ctx, "ledger"); err != nil {
		log.Fatal(err)
	}
	ledger, err := sequence.NewStream(store, "ledger", sequence.Options[memsequence.Tx]{})
	if err != nil {
		log.Fatal(err)
	}
	err = ledger.Do(ctx, sequence.Operation{ID: "transfer-1"}, func(ctx context.Context, n *sequence.Number[memsequence.Tx]) error {
		fmt.Println("number", n.Seq())
		return n.Commit(ctx, []byte("entry"), nil)
	})
	if err := errors.Join(err, ledger.Close(ctx)); err != nil {
		log.Fatal(err)
	}
}
