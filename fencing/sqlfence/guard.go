package sqlfence

import (
	"fmt"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
)

// Guard is the check as two parts of your own UPDATE, for a table whose rows
// store the token of their last writer in a column. Use both parts: a
// statement that checks the token but does not store it lets the next stale
// statement pass.
//
// The statement affects no row if the token is stale or the row does not
// exist, so check RowsAffected. Concurrent statements are safe from READ
// COMMITTED upwards: the database evaluates Where again on the row it has
// locked.
type Guard struct {
	// Set is an assignment for the SET clause: `fencing_token = $3`.
	Set string
	// Where is a condition for the WHERE clause: `COALESCE(fencing_token, 0) <= $3`.
	// A row whose column is NULL has never been fenced and is admitted.
	Where string
	// Token is the argument to pass: with Dollar once, at the given position; with Question once
	// for Set and once for Where, at their places in the statement.
	Token int64
}

// NewGuard returns the guard for a column, a 64-bit integer, and a token.
// position is the number of the token's parameter in a statement in Dollar
// style, from 1; it is ignored for Question.
func NewGuard(style Placeholders, column string, position int, token int64) (Guard, error) {
	if err := style.validate(); err != nil {
		return Guard{}, err
	}
	if err := validateIdentifier("column", column); err != nil {
		return Guard{}, err
	}
	if style == Dollar && position < 1 {
		return Guard{}, &leasing.InvalidError{Field: "position", Value: position, Want: "1 or more"}
	}
	if err := fencing.Check("", token, 0); err != nil {
		return Guard{}, err
	}
	parameter := style.at(position)
	return Guard{
		Set:   fmt.Sprintf("%s = %s", column, parameter),
		Where: fmt.Sprintf("COALESCE(%s, 0) <= %s", column, parameter),
		Token: token,
	}, nil
}
