package sqlsequence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/jackc/pgx/v5"
)

// failures classifies the errors of one kind of database.
type failures struct{ lite bool } // lite means SQLite

// explain adds the matching sentinel to an error from the database. Errors from contexts keep their text.
func (f failures) explain(err error) error {
	if err == nil { // before any allocation
		return nil
	}
	var broken *brokenError
	if errors.As(err, &broken) { // COMMIT was not sent
		return fmt.Errorf("sequence: %w", providerkit.Meaning{Class: providerkit.Unsent}.Of(err))
	}
	var known *answerError
	if errors.As(err, &known) {
		return known.error
	}
	var verdict sqlkit.Verdict
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) { // otherwise the outcome is unknown
		verdict = f.verdict(err)
	}
	if f.isRefusal(verdict, err) {
		return &seqstore.RefusedError{Err: err}
	}
	meaning := verdict.Meaning
	if meaning.Class == providerkit.NotSetUp {
		meaning.Advice = cmp.Or(meaning.Advice, "check Options, and call Migrate")
	}
	return fmt.Errorf("sequence: %w", meaning.Of(err))
}

// isRefusal reports whether an error is the database's answer to the writes of the transaction. An error because others have
// locked the file does not count.
func (f failures) isRefusal(verdict sqlkit.Verdict, err error) bool {
	var ending *commitError
	if !errors.As(err, &ending) {
		return verdict.RolledBack && verdict.Class == providerkit.Unknown
	}
	if errors.Is(err, sql.ErrTxDone) || errors.Is(err, pgx.ErrTxClosed) { // the write has ended the transaction
		return true
	}
	return verdict.RolledBack && !(f.lite && verdict.Class == providerkit.Refused)
}

func (f failures) verdict(err error) sqlkit.Verdict {
	if f.lite {
		return sqlkit.SQLite(err)
	}
	return pgkit.Verdict(err)
}
