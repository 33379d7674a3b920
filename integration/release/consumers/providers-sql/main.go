// A program that uses providers/sql for the errors and grants of all dialects, and opens no database.
package main

import (
	"errors"
	"fmt"
	"log"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

func main() {
	var err error = &sqllease.SetupError{Role: "app", Statements: []string{"CREATE TABLE lease ()"}, Err: errors.New("denied")}
	_, _, ours := sqllease.Times(abstractions.Grant{})
	if ours || !errors.Is(err, leasing.ErrNotSetUp) {
		log.Fatal(err)
	}
	fmt.Println(err)
}
