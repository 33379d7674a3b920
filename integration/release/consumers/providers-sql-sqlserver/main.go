// The first program of a user of providers/sql/sqlserver who creates the tables with their own tool. It needs no server, since it
// only prints the statements.
package main

import (
	"context"
	"fmt"
	"log"

	sqlserverlease "github.com/distributedleasing/leasing/providers/sql/sqlserver"
)

func main() {
	provider, err := sqlserverlease.OpenURL(context.Background(), "sqlserver://app:secret@127.0.0.1:1433?database=app")
	if err != nil {
		log.Fatal(err)
	}
	for _, statement := range provider.Statements() {
		fmt.Println(statement + ";\nGO")
	}
	if err := provider.Close(); err != nil {
		log.Fatal(err)
	}
}
