package sqlitelease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/disk"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// sqliteFile is a database file in its state at the first use.
type sqliteFile struct {
	path      string // resolved by SQLite
	givenPath string // the path given to Open, perhaps through links; "" on an application's database
	info      os.FileInfo
}

// findFile returns the file that this process has open, and refuses a file that has several names. SQLite's write-ahead log and
// its locks are files of their own, named after the database: users of two hard links would not exclude each other, nor see each
// other's changes (https://sqlite.org/howtocorrupt.html, 2.5). A database in memory has no file.
func findFile(ctx context.Context, on dialect.Querier, given string, oneHost bool) (*sqliteFile, error) {
	var path string
	err := dialect.ViaSQL{Querier: on}.Query(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'", nil, func(scan dialect.Scan) error { return scan(&path) })
	if err != nil || path == "" {
		return nil, err
	}
	file := &sqliteFile{path: path, givenPath: given}
	if file.info, err = os.Stat(path); err != nil {
		return nil, file.gone(err)
	}
	if n := links(file.info); n > 1 {
		return nil, fmt.Errorf("%w: %s has %d names (hard links), and SQLite has other locks for each name: remove the other names", abstractions.ErrNotSetUp, path, n)
	}
	return file, errors.Join(file.verify(), verifyDisk(path, oneHost))
}

// localFile returns an error for a file on a network disk. Tests replace the variable.
var localFile = disk.LocalFile

// verifyDisk refuses a file on a file system that other hosts may see. SQLite reports errors of other kinds, such as a missing
// folder.
func verifyDisk(path string, oneHost bool) error {
	if err := localFile(path); !oneHost && errors.Is(err, disk.ErrNetwork) {
		return fmt.Errorf("%w: %w", abstractions.ErrNotSetUp, err)
	}
	return nil
}

// verify refuses a file that is no longer at its path, or to which the given path no longer leads: other processes
// may find another file at that path. A later hard link does no harm, since no process opens the link.
func (f *sqliteFile) verify() error {
	if f == nil {
		return nil
	}
	err := f.isAt(f.path)
	if err == nil && f.givenPath != "" && f.givenPath != f.path {
		err = f.isAt(f.givenPath)
	}
	if err != nil {
		return f.gone(err)
	}
	return nil
}

func (f *sqliteFile) isAt(path string) error {
	info, err := os.Stat(path)
	if err == nil && !os.SameFile(info, f.info) {
		err = fmt.Errorf("%w at %s", errOtherFile, path)
	}
	return err
}

var errOtherFile = errors.New("another file is present")

func (f *sqliteFile) gone(err error) error {
	if errors.Is(err, errOtherFile) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w (%w): open a new provider", abstractions.ErrNotSetUp, dialect.ErrGone, err)
	}
	return fmt.Errorf("%w: the database file can't be looked at: %w", abstractions.ErrNotSetUp, err)
}

// links returns the number of names of a file: Nlink of syscall.Stat_t, whose type differs
// between systems; 1 where Nlink is missing.
func links(info os.FileInfo) uint64 {
	if stat := reflect.Indirect(reflect.ValueOf(info.Sys())); stat.Kind() == reflect.Struct {
		if n := stat.FieldByName("Nlink"); n.IsValid() && n.CanUint() {
			return n.Uint()
		}
	}
	return 1
}
