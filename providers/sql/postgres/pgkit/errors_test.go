package pgkit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// T155: only some codes of class 42 mean a missing set-up. Others mean a temporary refusal or an unknown
// outcome. The code also decides whether the connection is closed.
func TestTrap_T155_WhatPostgreSQLsCodesDecide(t *testing.T) {
	for code, want := range map[string]struct {
		class providerkit.Class
		close bool
	}{
		"42P01": {providerkit.NotSetUp, false},
		"42703": {providerkit.NotSetUp, false},
		"42704": {providerkit.NotSetUp, false},
		"42883": {providerkit.NotSetUp, false},
		"42501": {providerkit.Denied, false},
		"42601": {providerkit.Unknown, false},
		"42P03": {providerkit.Unknown, false},
		"42P05": {providerkit.Refused, true},
		"26000": {providerkit.Refused, true},
		"25006": {providerkit.Refused, true},
		"25P02": {providerkit.Refused, true},
		"57P01": {providerkit.Unknown, true},
		"57P02": {providerkit.Unknown, true},
		"57P03": {providerkit.Refused, true},
		"57P04": {providerkit.Unknown, true},
		"57P05": {providerkit.Refused, true},
		"40001": {providerkit.Refused, false},
		"57014": {providerkit.Unknown, false},
		"23505": {providerkit.NotSetUp, false},
	} {
		v := pgkit.Verdict(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}))
		require.Equal(t, want.class, v.Class, code)
		require.Equal(t, want.close, v.Close, code)
		require.Equal(t, code == "42P05" || code == "26000", v.Unprepared, code)
	}
	require.True(t, pgkit.IsDuplicate(&pgconn.PgError{Code: "23505"}))
	require.Zero(t, pgkit.Verdict(errors.New("42P01")))
}

// T197: an error that the server reports instead of committing is an answer, whatever its code. An error after which the
// transaction may be committed, as when the session ends, is not an answer.
func TestTrap_T197_WhatARollbackIs(t *testing.T) {
	for _, code := range []string{"23503", "23505", "25P02", "P0001", "40001", "40P01", "22023", "53100", "55P03", "42P01", "AB123"} {
		require.True(t, pgkit.Verdict(&pgconn.PgError{Code: code}).RolledBack, code)
	}
	for _, code := range []string{"08006", "57P01", "57014", "58030", "XX000", "25P03", "25P04", "40003", "P1", ""} {
		require.False(t, pgkit.Verdict(&pgconn.PgError{Code: code}).RolledBack, code)
	}
	require.True(t, pgkit.Verdict(fmt.Errorf("wrapped: %w", pgx.ErrTxCommitRollback)).RolledBack)
	require.False(t, pgkit.Verdict(errors.New("EOF")).RolledBack)
}
