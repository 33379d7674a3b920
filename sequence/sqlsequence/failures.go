package sqlsequence

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// explain gives an error of the database its meaning. What it says of contexts stays.
func (s *Store[Tx]) explain(err error) error {
	if err == nil { // before there is anything on the heap
		return nil
	}
	var known *answered
	if errors.As(err, &known) {
		return known.error
	}
	var meaning providerkit.Meaning
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) { // else unknown
		meaning = s.verdict(err).Meaning
	}
	if meaning.Class == providerkit.NotSetUp {
		meaning.Advice = cmp.Or(meaning.Advice, "check Options, and call Migrate")
	}
	return fmt.Errorf("sequence: %w", meaning.Of(err))
}

func (s *Store[Tx]) verdict(err error) sqlkit.Verdict {
	if s.lite {
		return sqlkit.SQLite(err)
	}
	return sqlkit.Postgres(err)
}
