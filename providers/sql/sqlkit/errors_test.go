package sqlkit_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"
)

// T155: of class 42 few codes are a missing set-up, and others pass. An error also decides about the connection.
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
		v := sqlkit.Postgres(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}))
		require.Equal(t, want.class, v.Class, code)
		require.Equal(t, want.close, v.Close, code)
		require.Equal(t, code == "42P05" || code == "26000", v.Unprepared, code)
	}
	require.True(t, sqlkit.IsDuplicate(&pgconn.PgError{Code: "23505"}))
	require.Zero(t, sqlkit.Postgres(errors.New("42P01")))
}

// T156, T157: MariaDB's and MySQL's numbers.
func TestTrap_T156_WhatMySQLsNumbersDecide(t *testing.T) {
	for class, numbers := range map[providerkit.Class][]int{
		providerkit.Denied:   {1045, 1820, 1862, 4151, 3118, 3159, 3955, 1251, 2061, 1275, 1524},
		providerkit.Refused:  {1205, 1213, 1040, 1792, 1836, 3032, 1047, 4031},
		providerkit.NotSetUp: {1146, 1286, 1290},
		providerkit.Unknown:  {1053, 1927, 1180, 1317, 4711},
	} {
		for _, number := range numbers {
			v := sqlkit.MySQL(number, errors.New("the server is running with the --enforce-storage-engine option"))
			require.Equal(t, class, v.Class, number)
		}
	}
	for _, option := range []string{"--read-only", "--super-read-only", "innodb_read_only", "READ_ONLY"} {
		v := sqlkit.MySQL(1290, fmt.Errorf("the server is running with the %s option", option))
		require.Equal(t, providerkit.Refused, v.Class, option)
		require.True(t, v.Close, option)
	}
	for number, closed := range map[int]bool{1792: true, 1836: true, 1053: true, 1927: true, 4031: true, 1205: false, 1045: false} {
		require.Equal(t, closed, sqlkit.MySQL(number, errors.New("")).Close, number)
	}
}

// T162: a disk that is full is an I/O error to some drivers. The caller is told of the disk.
func TestTrap_T162_AFullDiskIsTold(t *testing.T) {
	for _, err := range []error{
		errors.Join(sqlite3.IOERR_WRITE, syscall.ENOSPC), errors.Join(sqlite3.IOERR_SHMSIZE, syscall.EDQUOT), sqlite3.FULL,
	} {
		v := sqlkit.SQLite(fmt.Errorf("wrapped: %w", err))
		require.Equal(t, providerkit.Unknown, v.Class)
		told := v.Of(err)
		require.ErrorIs(t, told, abstractions.ErrUnavailable)
		require.ErrorContains(t, told, "disk is full")
	}
	require.NotContains(t, sqlkit.SQLite(sqlite3.IOERR_FSYNC).Of(sqlite3.IOERR_FSYNC).Error(), "full")
}

// No type of a driver is named, and drivers have codes in ways of their own.
func TestSQLiteCodesOfEachDriver(t *testing.T) {
	for _, err := range []error{sqlite3.BUSY, sqlite3.BUSY_SNAPSHOT, method(5), errors.Join(errors.New("first"), method(5))} {
		require.Equal(t, providerkit.Refused, sqlkit.SQLite(err).Class, "%v", err)
	}
	require.Zero(t, sqlkit.SQLite(errors.New("database is locked")))
	require.Zero(t, sqlkit.SQLite(nil))
}

type method int

func (m method) Error() string { return "a driver's" }
func (m method) Code() int     { return int(m) }

// T197: an error that the server reports instead of committing is an answer, whatever its code. The end of a session is no such answer.
func TestTrap_T197_WhatARollbackIs(t *testing.T) {
	for _, code := range []string{"23503", "23505", "25P02", "P0001", "40001", "40P01", "22023", "53100", "55P03", "42P01", "AB123"} {
		require.True(t, sqlkit.Postgres(&pgconn.PgError{Code: code}).RolledBack, code)
	}
	for _, code := range []string{"08006", "57P01", "57014", "58030", "XX000", "25P03", "25P04", "40003", "P1", ""} {
		require.False(t, sqlkit.Postgres(&pgconn.PgError{Code: code}).RolledBack, code)
	}
	require.True(t, sqlkit.Postgres(fmt.Errorf("wrapped: %w", pgx.ErrTxCommitRollback)).RolledBack)
	require.False(t, sqlkit.Postgres(errors.New("EOF")).RolledBack)
	require.True(t, sqlkit.SQLite(sqlite3.CONSTRAINT_FOREIGNKEY).RolledBack)
	require.True(t, sqlkit.SQLite(sqlite3.BUSY).RolledBack)
	for _, err := range []error{sqlite3.IOERR_WRITE, sqlite3.FULL, sqlite3.CORRUPT, errors.New("19")} {
		require.False(t, sqlkit.SQLite(err).RolledBack, err)
	}
}
