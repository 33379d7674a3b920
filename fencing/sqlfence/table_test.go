package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/internal/fencingtest"
	"github.com/distributedleasing/leasing/fencing/sqlfence"
)

// Table is tested against real databases, and with concurrent holders, in
// integration/fencing: this module requires no driver. Here a fake driver
// records the requests, in their order.

var hostileIdentifiers = []string{
	"", "1st", "a b", `a"b`, "a;drop table x", "a-b", "a.b.c", "ä", "a\x00", "'", strings.Repeat("x", 64),
}

func newTable(t *testing.T) *sqlfence.Table {
	t.Helper()
	table, err := sqlfence.NewTable(sqlfence.Question, "")
	require.NoError(t, err)
	return table
}

func TestTableRefusesHostileNamesAndUnknownStyles(t *testing.T) {
	for _, name := range append(hostileIdentifiers[1:], ".x", "x.", ".", "a. b") {
		_, err := sqlfence.NewTable(sqlfence.Dollar, name)
		require.ErrorIs(t, err, leasing.ErrInvalid, "%q", name)
	}
	_, err := sqlfence.NewTable(0, "fencing")
	require.ErrorIs(t, err, leasing.ErrInvalid)
}

func TestTableQuotesItsName(t *testing.T) {
	table, err := sqlfence.NewTable(sqlfence.Dollar, "leasing.Fencing_2")
	require.NoError(t, err)
	require.Contains(t, table.CreateSQL(), `"leasing"."Fencing_2" (`)
	query, args, err := table.AdvanceSQL("reports/daily", 7)
	require.NoError(t, err)
	require.Contains(t, query, `INTO "leasing"."Fencing_2" AS seen (resource, token) VALUES (pg_catalog.convert_from($1, 'UTF8'), $2)`)
	require.Equal(t, []any{[]byte("reports/daily"), int64(7)}, args)
}

func TestTableSendsNothingForWhatIsNoTokenOrResource(t *testing.T) {
	table, db, sent := newTable(t), (*sql.DB)(nil), &recorder{}
	check := func(resource string, token int64, field string) {
		t.Helper()
		fake := open(t, sent)
		tx, err := fake.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		sent.reset()
		for _, err := range []error{
			table.Advance(t.Context(), tx, resource, token),
			table.Do(t.Context(), db, resource, token, func(context.Context, *sql.Tx) error { return nil }),
		} {
			require.ErrorIs(t, err, leasing.ErrInvalid)
			require.ErrorContains(t, err, field)
		}
		require.Empty(t, sent.log())
		require.NoError(t, tx.Rollback())
	}
	for _, token := range fencingtest.BadTokens {
		check("r", token, "token")
	}
	for _, resource := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 513)} {
		check(resource, 1, "resource")
	}
}

func TestExecChecksBeforeItRunsTheStatement(t *testing.T) {
	sent := &recorder{seen: 7}
	tx, err := open(t, sent).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = newTable(t).Exec(t.Context(), tx, "r", 7, "UPDATE x", 1)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.Equal(t, []string{"BEGIN", "ADVANCE r 7", "UPDATE x", "COMMIT"}, sent.log())
}

func TestExecDoesNotRunTheStatementOfAStaleToken(t *testing.T) {
	sent := &recorder{seen: 8}
	tx, err := open(t, sent).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = newTable(t).Exec(t.Context(), tx, "r", 7, "UPDATE x")
	require.Equal(t, &fencing.StaleError{Resource: "r", Token: 7, Seen: 8}, err)
	require.NoError(t, tx.Rollback())
	require.Equal(t, []string{"BEGIN", "ADVANCE r 7", "ROLLBACK"}, sent.log())
}

func TestExecReportsAFailedCheckAndRunsNothing(t *testing.T) {
	broken := errors.New("broken pipe")
	sent := &recorder{fail: map[string]error{"ADVANCE": broken}}
	tx, err := open(t, sent).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = newTable(t).Exec(t.Context(), tx, "r", 7, "UPDATE x")
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, leasing.ErrStale, "a failed check says nothing about the token")
	require.NoError(t, tx.Rollback())
	require.NotContains(t, sent.log(), "UPDATE x")
}

func TestCheckSaysWhyItsContextEnded(t *testing.T) {
	lost := &leasing.LostError{Reason: leasing.LostExpired}
	tx, err := open(t, &recorder{}).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(lost)
	require.ErrorIs(t, newTable(t).Advance(ctx, tx, "r", 7), lost)
	require.NoError(t, tx.Rollback())
}

func TestDoCommitsWhatSucceeded(t *testing.T) {
	sent := &recorder{}
	err := newTable(t).Do(t.Context(), open(t, sent), "r", 7, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE x")
		return err
	})
	require.NoError(t, err)
	require.Equal(t, []string{"BEGIN", "ADVANCE r 7", "UPDATE x", "COMMIT"}, sent.log())
}

func TestDoRollsBackWhatFailed(t *testing.T) {
	boom := errors.New("boom")
	rolled := []string{"BEGIN", "ADVANCE r 7", "ROLLBACK"}

	sent := &recorder{}
	err := newTable(t).Do(t.Context(), open(t, sent), "r", 7, func(context.Context, *sql.Tx) error { return boom })
	require.Equal(t, boom, err)
	require.Equal(t, rolled, sent.log())

	sent = &recorder{seen: 8}
	err = newTable(t).Do(t.Context(), open(t, sent), "r", 7, func(context.Context, *sql.Tx) error {
		t.Error("ran with a stale token")
		return nil
	})
	require.ErrorIs(t, err, leasing.ErrStale)
	require.Equal(t, rolled, sent.log())

	sent = &recorder{}
	require.PanicsWithValue(t, "boom", func() {
		_ = newTable(t).Do(t.Context(), open(t, sent), "r", 7, func(context.Context, *sql.Tx) error { panic("boom") })
	})
	require.Equal(t, rolled, sent.log())
}

func TestDoReportsEachFailure(t *testing.T) {
	boom, broken := errors.New("boom"), errors.New("broken pipe")
	run := func(sent *recorder) error {
		return newTable(t).Do(t.Context(), open(t, sent), "r", 7, func(context.Context, *sql.Tx) error { return boom })
	}
	require.ErrorIs(t, run(&recorder{fail: map[string]error{"BEGIN": broken}}), broken)
	err := run(&recorder{fail: map[string]error{"ROLLBACK": broken}})
	require.ErrorIs(t, err, boom)
	require.ErrorIs(t, err, broken)

	err = newTable(t).Do(t.Context(), open(t, &recorder{fail: map[string]error{"COMMIT": broken}}), "r", 7,
		func(context.Context, *sql.Tx) error { return nil })
	require.ErrorIs(t, err, broken)
}

func TestDoSaysWhyItsContextEnded(t *testing.T) {
	lost := &leasing.LostError{Reason: leasing.LostExpired}
	ctx, cancel := context.WithCancelCause(t.Context())
	sent := &recorder{}
	err := newTable(t).Do(ctx, open(t, sent), "r", 7, func(context.Context, *sql.Tx) error {
		cancel(lost)
		return nil
	})
	require.ErrorIs(t, err, lost)
	require.NotContains(t, sent.log(), "COMMIT")
}

// This is the table of release 0.1.0, which later releases must be able to use.
func TestGoldenTable(t *testing.T) {
	table, err := sqlfence.NewTable(sqlfence.Question, "")
	require.NoError(t, err)
	require.Equal(t, `CREATE TABLE IF NOT EXISTS "fencing" (resource text NOT NULL PRIMARY KEY, token bigint NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991))`, table.CreateSQL())
}
