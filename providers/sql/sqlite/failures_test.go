package sqlitelease

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"
)

// T27: an error's code, never its text, decides what the error means.
func TestTrap_T27_StatusDecidesWhatAnErrorMeans(t *testing.T) {
	sentinels := []error{abstractions.ErrUnavailable, abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrInvalid}
	for _, test := range []struct {
		err  error
		want []error // in the order of sentinels
	}{
		{errors.New("database is locked"), sentinels[:1]},
		{sqlite3.ERROR, sentinels[3:4]},
		{sqlite3.CONSTRAINT_NOTNULL, sentinels[3:4]},
		{sqlite3.INTERRUPT, sentinels[:1]},
		{sqlite3.IOERR_FSYNC, sentinels[:1]},
		{fmt.Errorf("wrapped: %w", sqlite3.BUSY), sentinels[:2]},
		{sqlite3.BUSY_SNAPSHOT, sentinels[:2]},
		{sqlite3.FULL, sentinels[:1]},
		{sqlite3.IOERR_WRITE, sentinels[:1]},
		{sqlite3.READONLY, sentinels[2:3]},
		{sqlite3.CANTOPEN, sentinels[:1]},
		{cantOpen(syscall.EMFILE), sentinels[:2]},
		{cantOpen(syscall.ENFILE), sentinels[:2]},
		{cantOpen(syscall.EACCES), sentinels[2:3]},
		{cantOpen(syscall.EROFS), sentinels[2:3]},
		{cantOpen(syscall.ENOENT), sentinels[3:4]},
		{cantOpen(syscall.EISDIR), sentinels[3:4]},
		{sqlite3.NOTADB, sentinels[3:4]},
		{foreignCode(5), sentinels[:2]},
	} {
		err := dialecttest.Explained(t, &sqlite{}, test.err)
		for _, sentinel := range sentinels {
			require.Equal(t, slices.Contains(test.want, sentinel), errors.Is(err, sentinel), "%v: %v", test.err, sentinel)
		}
		require.ErrorIs(t, err, test.err, "the library's error stays in the chain")
	}
}

// cantOpen returns the error from ncruces' driver for a file that the system can't open.
func cantOpen(errno syscall.Errno) error { return errors.Join(sqlite3.CANTOPEN_FULLPATH, errno) }

// foreignCode is an error from another SQLite driver.
type foreignCode int

func (c foreignCode) Error() string { return "some driver's" }

func (c foreignCode) Code() int { return int(c) }
