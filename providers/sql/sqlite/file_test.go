package sqlitelease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/disk"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	"github.com/stretchr/testify/require"
)

// T18: SQLite keeps a separate log and separate locks for each name of a file, so two processes
// that use two names could hold the same lease.
func TestTrap_T18_HardLinksOfAFileAreRefused(t *testing.T) {
	ctx, folder := bounded(t), t.TempDir()
	first, second := filepath.Join(folder, "a.db"), filepath.Join(folder, "b.db")
	p := openTest(t, "sqlite://"+first, nil)
	grant, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	require.NoError(t, os.Link(first, second))

	for _, path := range []string{first, second} {
		other := openTest(t, "sqlite://"+path, []string{"create", "false"})
		_, err = other.Acquire(ctx, claimOf("n", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp, path)
		require.ErrorContains(t, err, "2 names")
		require.ErrorIs(t, other.Ping(ctx), abstractions.ErrNotSetUp)
		require.ErrorIs(t, other.Migrate(ctx), abstractions.ErrNotSetUp)
	}
	_, err = p.Renew(ctx, renewalOf(grant))
	require.NoError(t, err, "a process that has the file open is alone with it")

	require.NoError(t, os.Remove(second))
	again := openTest(t, "sqlite://"+first, nil)
	_, err = again.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
}

// T18: later processes find another file in place of one that was deleted or replaced.
func TestTrap_T18_FileThatIsGoneIsNoticed(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"deleted":  os.Remove,
		"moved":    func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error { return os.Rename(path+".new", path) },
	} {
		t.Run(what, func(t *testing.T) {
			ctx, path := bounded(t), filepath.Join(t.TempDir(), "leases.db")
			p := openTest(t, "sqlite://"+path, nil)
			require.NoError(t, openTest(t, "sqlite://"+path+".new", nil).Close())
			grant, err := p.Acquire(ctx, claimOf("n", time.Minute))
			require.NoError(t, err)
			require.NoError(t, p.Ping(ctx))

			require.NoError(t, change(path))
			_, err = p.Renew(ctx, renewalOf(grant))
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.ErrorIs(t, err, abstractions.ErrLost)
			_, err = p.Acquire(ctx, claimOf("m", time.Minute))
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.ErrorIs(t, p.Ping(ctx), abstractions.ErrNotSetUp)
		})
	}
}

// Another process makes a new file in place of the old one, for example after `git clean`. The holder notices the loss at its
// next renewal, not only at the end of the TTL.
func TestTrap_T133_AFileThatIsGoneIsALoss(t *testing.T) {
	ctx, folder := bounded(t), filepath.Join(t.TempDir(), "state")
	url := "sqlite://" + filepath.Join(folder, "leases.db")
	require.NoError(t, os.Mkdir(folder, 0o755))
	manager := func() *leasing.Manager {
		m, err := leasing.NewManager(openTest(t, url, nil), leasing.Options{TTL: time.Hour, NoAutoRenew: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = m.Close(ctx) })
		return m
	}
	first := manager()
	one, err := first.TryAcquire(ctx, "n")
	require.NoError(t, err)
	two, err := first.TryAcquire(ctx, "m")
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(folder))
	require.ErrorIs(t, two.Renew(ctx), leasing.ErrLost, "any process may make a new file")
	require.NoError(t, os.Mkdir(folder, 0o755))
	next, err := manager().TryAcquire(ctx, "n")
	require.NoError(t, err)
	require.ErrorIs(t, one.Renew(ctx), leasing.ErrLost)
	for _, lost := range []*leasing.Lease{one, two} {
		why, is := errors.AsType[*leasing.LostError](lost.Err())
		require.True(t, is)
		require.Equal(t, leasing.LostGone, why.Reason)
		require.ErrorIs(t, context.Cause(lost.Context()), leasing.ErrLost)
	}
	require.NoError(t, next.Renew(ctx))
	require.NoError(t, next.Release(ctx))
}

// Each release of an application has its own folder, and a link leads to the current folder.
func TestTrap_T100_FileBehindALinkThatLeadsElsewhereIsNoticed(t *testing.T) {
	for what, linked := range map[string]string{"folder": "", "file": "leases.db"} {
		t.Run(what, func(t *testing.T) {
			ctx, folder := bounded(t), t.TempDir()
			current := filepath.Join(folder, "current")
			path := current
			if linked == "" {
				path = filepath.Join(current, "leases.db")
			}
			lead := func(to string) {
				require.NoError(t, os.MkdirAll(filepath.Join(folder, to), 0o755))
				if linked != "" {
					require.NoError(t, openTest(t, "sqlite://"+filepath.Join(folder, to, linked), nil).Close())
				}
				require.NoError(t, os.Symlink(filepath.Join(to, linked), current+".new"))
				require.NoError(t, os.Rename(current+".new", current))
			}
			lead("first")
			p := openTest(t, "sqlite://"+path, nil)
			grant, err := p.Acquire(ctx, claimOf("n", time.Minute))
			require.NoError(t, err)
			beside := openTest(t, "sqlite://"+filepath.Join(folder, "first", "leases.db"), nil)
			_, err = beside.Acquire(ctx, claimOf("n", time.Minute))
			require.ErrorIs(t, err, abstractions.ErrHeld)

			lead("second")
			_, err = openTest(t, "sqlite://"+path, nil).Acquire(ctx, claimOf("n", time.Minute))
			require.NoError(t, err)
			_, err = p.Renew(ctx, renewalOf(grant))
			require.ErrorIs(t, err, abstractions.ErrNotSetUp, "another process has the name there")
			require.ErrorIs(t, err, abstractions.ErrLost)
			_, err = p.Acquire(ctx, claimOf("m", time.Minute))
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.ErrorIs(t, p.Ping(ctx), abstractions.ErrNotSetUp)
			_, err = beside.Acquire(ctx, claimOf("m", time.Minute))
			require.NoError(t, err)
		})
	}
}

// A NUL would end the name for SQLite, which would open another file.
func TestPathWithNULIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	for _, options := range []Options{{Path: path + "\x00.backup"}, {URL: "sqlite://" + path + "%00.backup"}} {
		_, err := Open(t.Context(), options)
		require.ErrorIs(t, err, abstractions.ErrInvalid)
	}
	require.NoFileExists(t, path)
}

// T87: the system's error on opening the file decides whether a retry may help: a missing permission
// or folder is permanent, but a shortage of file descriptors may be temporary.
func TestTrap_T87_WhyAFileIsNotOpened(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("rights and descriptors of a process are those of a Unix system")
	}
	folder := t.TempDir()
	require.NoError(t, os.Chmod(folder, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(folder), 0o755))
	closed := filepath.Join(folder, "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))
	locked := filepath.Join(folder, "locked.db")
	require.NoError(t, openTest(t, "sqlite://"+locked, nil).Close())
	require.NoError(t, os.Chmod(locked, 0o600))
	for what, test := range map[string]struct {
		path string
		want error
	}{
		"no right to the file":   {locked, abstractions.ErrDenied},
		"no right to the folder": {filepath.Join(closed, "x.db"), abstractions.ErrDenied},
		"read-only folder":       {filepath.Join(folder, "x.db"), abstractions.ErrDenied},
		"no folder":              {filepath.Join(folder, "missing", "x.db"), abstractions.ErrNotSetUp},
		"a folder":               {folder, abstractions.ErrNotSetUp},
		"no descriptors":         {filepath.Join(folder, "x.db"), abstractions.ErrThrottled},
	} {
		t.Run(what, func(t *testing.T) {
			child := exec.CommandContext(bounded(t), os.Args[0], what, test.path)
			child.Env = append(os.Environ(), dialecttest.ChildVariable+"=open")
			output, err := child.CombinedOutput()
			require.NoError(t, err, string(output))
			require.Contains(t, string(output), test.want.Error())
			if !errors.Is(test.want, abstractions.ErrThrottled) {
				require.NotContains(t, string(output), abstractions.ErrUnavailable.Error())
			}
		})
	}
}

// printOpenError is the program of the child process above: it prints the reason why the file can't be
// used.
func printOpenError(what, path string) error {
	p, err := OpenURL(context.Background(), "sqlite://"+path)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := dropRights(what); err != nil {
		return err
	}
	fmt.Println(p.Ping(context.Background()))
	return nil
}

// SQLite's locks may not reach the other hosts of a network file system.
func TestTrap_T139_AFileOnANetworkDiskIsRefused_sqlite(t *testing.T) {
	ctx, path := bounded(t), filepath.Join(t.TempDir(), "leases.db")
	url := "sqlite://" + path + "?create=true"
	early, err := Open(ctx, Options{URL: "sqlite://" + path}) // before the folder moves to a network disk
	require.NoError(t, err)
	defer func() { require.NoError(t, early.Close()) }()
	own, err := sql.Open("sqlite3", "file:"+path+".own?_pragma=journal_mode(wal)&_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	defer func() { require.NoError(t, own.Close()) }()
	require.NoError(t, own.PingContext(ctx))

	local, asked := localFile, ""
	localFile = func(path string) error {
		asked = path
		return fmt.Errorf("this one is: %w", disk.ErrNetwork)
	}
	defer func() { localFile = local }()
	_, err = OpenURL(ctx, url)
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorIs(t, err, disk.ErrNetwork)
	require.ErrorContains(t, err, "one_host=true")
	require.Equal(t, path, asked)
	require.NoFileExists(t, path)
	require.ErrorIs(t, early.Migrate(ctx), abstractions.ErrNotSetUp)
	require.ErrorIs(t, early.Ping(ctx), abstractions.ErrNotSetUp)
	require.NoFileExists(t, path+"-wal")
	given, err := Open(ctx, Options{DB: own})
	require.NoError(t, err)
	require.ErrorIs(t, given.Migrate(ctx), abstractions.ErrNotSetUp)
	require.NoError(t, given.Close())

	p, err := OpenURL(ctx, url+"&one_host=true")
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	_, err = p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
}
