package sqllease_test

import (
	"errors"
	"fmt"

	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

// Migrate returns this error if the role may not create tables. An administrator runs the statements.
func ExampleSetupError() {
	var err error = &sqllease.SetupError{
		Role:       "app",
		Statements: []string{"CREATE SCHEMA leasing"},
		Err:        errors.New("permission denied for database app"),
	}
	var setup *sqllease.SetupError
	if errors.As(err, &setup) {
		for _, statement := range setup.Statements {
			fmt.Println(statement + ";")
		}
	}
	// Output:
	// CREATE SCHEMA leasing;
}
