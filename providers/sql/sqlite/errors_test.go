package sqlitelease

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"
)

// T162: a full disk is an I/O error with some drivers. The error names the disk.
func TestTrap_T162_AFullDiskIsReported(t *testing.T) {
	for _, err := range []error{
		errors.Join(sqlite3.IOERR_WRITE, syscall.ENOSPC), errors.Join(sqlite3.IOERR_SHMSIZE, syscall.EDQUOT), sqlite3.FULL,
	} {
		v := sqlkit.SQLite(fmt.Errorf("wrapped: %w", err))
		require.Equal(t, providerkit.Unknown, v.Class)
		wrapped := v.Of(err)
		require.ErrorIs(t, wrapped, abstractions.ErrUnavailable)
		require.ErrorContains(t, wrapped, "disk is full")
	}
	require.NotContains(t, sqlkit.SQLite(sqlite3.IOERR_FSYNC).Of(sqlite3.IOERR_FSYNC).Error(), "full")
}

// The class of an error does not depend on a driver's type, since each driver reports codes in its
// own way.
func TestSQLiteCodesOfEachDriver(t *testing.T) {
	for _, err := range []error{sqlite3.BUSY, sqlite3.BUSY_SNAPSHOT, method(5), errors.Join(errors.New("first"), method(5))} {
		require.Equal(t, providerkit.Refused, sqlkit.SQLite(err).Class, "%v", err)
	}
	require.Zero(t, sqlkit.SQLite(errors.New("database is locked")))
	require.Zero(t, sqlkit.SQLite(nil))
}

type method int

func (m method) Error() string { return "a driver's" }

func (m method) Code() int { return int(m) }

// T197: an error that SQLite reports instead of committing is an answer, whatever its code.
func TestTrap_T197_WhatARollbackIs(t *testing.T) {
	require.True(t, sqlkit.SQLite(sqlite3.CONSTRAINT_FOREIGNKEY).RolledBack)
	require.True(t, sqlkit.SQLite(sqlite3.BUSY).RolledBack)
	for _, err := range []error{sqlite3.IOERR_WRITE, sqlite3.FULL, sqlite3.CORRUPT, errors.New("19")} {
		require.False(t, sqlkit.SQLite(err).RolledBack, err)
	}
}
