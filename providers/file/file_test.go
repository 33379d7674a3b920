package filelease

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/disk"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
	"github.com/distributedleasing/leasing/abstractions/recordstest"
)

func openTest(t testing.TB, folder string) *Provider {
	t.Helper()
	p, err := Open(t.Context(), Options{Folder: folder, Create: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func acquireRequest(name, id string) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: id, Owner: "test", TTL: time.Minute}
}

func (p *Provider) mustAcquire(t testing.TB, name, id string) abstractions.Grant {
	t.Helper()
	grant, err := p.Acquire(t.Context(), acquireRequest(name, id))
	require.NoError(t, err)
	return grant
}

func TestOptionsInJSONAndURL(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a b")
	var options Options
	require.NoError(t, json.Unmarshal([]byte(`{"folder": "/x", "create": true, "retention": "forever", "timeout": "2s"}`), &options))
	require.Equal(t, Options{Folder: "/x", Create: true, Retention: abstractions.Infinite, Timeout: 2 * time.Second}, options)
	p, err := OpenURL(t.Context(), "file://"+strings.ReplaceAll(folder, " ", "%20")+"?create=true&retention=10m")
	require.NoError(t, err)
	require.DirExists(t, folder)
	require.Equal(t, 10*time.Minute, p.records.Retention)
	require.NoError(t, p.Close())
	for url, field := range map[string]string{
		"": "URL", "file://": "URL", "file://host/x": "URL", "redis:///x": "URL", "file:///x?creat=1": "creat", "file:///x?retention=1": "retention", "file:///x?retention=59s": "Retention",
		"file:///x?timeout=-1s": "Timeout",
	} {
		_, err := OpenURL(t.Context(), url)
		require.ErrorIs(t, err, abstractions.ErrInvalid, url)
		require.ErrorContains(t, err, field, url)
	}
	_, err = Open(t.Context(), Options{})
	require.ErrorIs(t, err, abstractions.ErrInvalid)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	missing := filepath.Join(t.TempDir(), "missing")
	_, err = Open(ended, Options{Folder: missing, Create: true})
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, missing)
}

// T87: a folder that can't be used is reported as a permanent error, not as an outage.
func TestTrap_T87_FoldersThatCannotBeUsed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := Open(t.Context(), Options{Folder: missing})
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorContains(t, err, "Options.Create")

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Open(t.Context(), Options{Folder: file})
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)

	gone := t.TempDir()
	p := openTest(t, gone)
	p.mustAcquire(t, "n", "mine")
	require.NoError(t, os.RemoveAll(gone))
	require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrNotSetUp)
	_, err = p.Acquire(t.Context(), acquireRequest("n", "theirs"))
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	_, err = p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.ErrorIs(t, err, abstractions.ErrNotSetUp, "a folder that is gone is no free name")

	d := &driver{folder: &folder{}}
	for err, class := range map[error]providerkit.Class{
		syscall.EACCES: providerkit.Denied, syscall.EROFS: providerkit.Denied, syscall.ENOENT: providerkit.NotSetUp, errNoLocks: providerkit.NotSetUp,
		syscall.ENOSPC: providerkit.Refused, syscall.EMFILE: providerkit.Refused, syscall.EIO: providerkit.Unknown,
	} {
		require.Equal(t, class, d.Classify(&os.PathError{Op: "open", Path: "x", Err: err}).Class, err)
	}
}

// T133: if another process replaces the folder with a new one, the holder's next renewal reports
// the loss.
func TestTrap_T133_AFolderThatIsGoneIsALoss(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	p := openTest(t, folder)
	renew := func(g abstractions.Grant) error {
		_, err := p.Renew(t.Context(), abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State})
		return err
	}
	one, two, three := p.mustAcquire(t, "one", "mine"), p.mustAcquire(t, "two", "mine"), p.mustAcquire(t, "three", "mine")
	require.NoError(t, renew(one))
	require.NoError(t, os.RemoveAll(folder))
	require.ErrorIs(t, renew(one), abstractions.ErrLost, "any process may make a new folder")
	openTest(t, folder).mustAcquire(t, "two", "theirs")
	for _, grant := range []abstractions.Grant{two, three} {
		require.ErrorIs(t, renew(grant), abstractions.ErrLost, grant.Name)
	}
}

// A sweep deletes only the records that it has listed, not their newer versions.
func TestWhatHasChangedSinceItWasListedIsNotDeleted(t *testing.T) {
	dir := t.TempDir()
	p := openTest(t, dir)
	p.mustAcquire(t, "n", "mine")
	f := &folder{path: dir}
	listed, _, err := f.List(t.Context(), cas.ListQuery{Limit: 10})
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "mine"}))
	require.ErrorIs(t, f.Delete(t.Context(), listed[0]), cas.ErrConflict)
	record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.Positive(t, record.Token, "it is still remembered")
}

func TestNetworkFileSystemsAreRefused(t *testing.T) {
	folder := t.TempDir()
	openTest(t, folder)
	before := check
	check = func(string) error { return fmt.Errorf("this one is: %w", disk.ErrNetwork) }
	defer func() { check = before }()
	_, err := Open(t.Context(), Options{Folder: folder})
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorContains(t, err, "this one")
	p, err := OpenURL(t.Context(), "file://"+folder+"?one_host=true")
	require.NoError(t, err, "this host alone uses it")
	require.NoError(t, p.Ping(t.Context()))
	require.NoError(t, p.Close())
}

// T19: an empty record, a half-written new record of a killed writer, or a damaged record
// from an earlier boot does not block a claim.
func TestTrap_T19_CrashesBlockNobody(t *testing.T) {
	folder := t.TempDir()
	p := openTest(t, folder)
	old := p.mustAcquire(t, "n", "mine")
	path := filepath.Join(folder, "n"+suffix)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range locks {
		require.NoError(t, os.WriteFile(filepath.Join(folder, lockFolder, fmt.Sprint(i, ".new")), whole[:20], 0o600))
	}
	_, err = p.Renew(t.Context(), abstractions.RenewRequest{Name: "n", ID: "mine", Token: old.Token, TTL: time.Minute})
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	_, err = p.Acquire(t.Context(), acquireRequest("n", "theirs"))
	require.ErrorIs(t, err, abstractions.ErrNotSetUp, "damaged in this boot: its holder may live")
	require.ErrorContains(t, err, `"n"`)
	p.mustAcquire(t, "other", "theirs")
	list, err := p.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	require.Len(t, list.Records, 1)

	for _, rest := range []int{0, len(whole) / 2} {
		require.NoError(t, os.WriteFile(path, whole[:rest], 0o600))
		require.NoError(t, os.Chtimes(path, time.Time{}, hostclock.Now().Wall.Add(-hostclock.Now().SinceBoot-time.Hour)))
		grant := p.mustAcquire(t, "n", "theirs")
		require.Greater(t, grant.Token, old.Token)
		require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "theirs"}))
	}
}

// On a file system that ignores case, a name is refused if its file belongs to another name.
func TestTwoNamesOfOneFile(t *testing.T) {
	folder := t.TempDir()
	p := openTest(t, folder)
	p.mustAcquire(t, "Jobs", "mine")
	require.NoError(t, os.Link(filepath.Join(folder, "Jobs"+suffix), filepath.Join(folder, "jobs"+suffix)))
	_, err := p.Acquire(t.Context(), acquireRequest("jobs", "theirs"))
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorContains(t, err, `"Jobs"`)
}

// A lock whose file was deleted does not exclude later processes, so tryLock does not
// report it as acquired.
func TestADeletedLockIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	require.NoError(t, os.Remove(path))
	another, err := os.Create(path)
	require.NoError(t, err)
	defer func() { _ = another.Close() }()
	locked, err := tryLock(file)
	require.NoError(t, err)
	require.False(t, locked)
}

// T02, T23: of many concurrent acquires, through several providers, exactly one gets the name.
func TestManyAskAtOnce_ConcurrentSafe(t *testing.T) {
	folder := t.TempDir()
	var wait sync.WaitGroup
	grants := make(chan abstractions.Grant, 32)
	for i := range 4 {
		p := openTest(t, folder)
		for j := range 8 {
			wait.Go(func() {
				grant, err := p.Acquire(t.Context(), acquireRequest("n", fmt.Sprint(i, "-", j)))
				if err == nil {
					grants <- grant
				} else if !errors.Is(err, abstractions.ErrHeld) {
					t.Error(err)
				}
			})
		}
	}
	wait.Wait()
	require.Len(t, grants, 1)
}

func TestPagesAreInTheOrderOfFiles(t *testing.T) {
	p := openTest(t, t.TempDir())
	for _, name := range []string{"a", "a-b", "a.b", "b"} {
		p.mustAcquire(t, name, "mine")
	}
	var names []string
	for req := (abstractions.ListRequest{Limit: 1}); ; {
		page, err := p.List(t.Context(), req)
		require.NoError(t, err)
		for _, record := range page.Records {
			names = append(names, record.Name)
		}
		if req.After = page.Next; req.After == "" {
			break
		}
	}
	require.ElementsMatch(t, []string{"a", "a-b", "a.b", "b"}, names)
}

// T73: a process sweeps even if it makes only one release.
func TestTrap_T73_OneReleaseSweeps(t *testing.T) {
	folder := t.TempDir()
	p := openTest(t, folder)
	for i := range 50 {
		name := fmt.Sprint("reply/", i)
		p.mustAcquire(t, name, "mine")
		require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: name, ID: "mine"}))
	}
	other, err := Open(t.Context(), Options{Folder: folder})
	require.NoError(t, err)
	other.records.Retention = time.Millisecond
	<-time.After(2 * time.Millisecond) // the retention
	other.mustAcquire(t, "last", "mine")
	require.NoError(t, other.Release(t.Context(), abstractions.ReleaseRequest{Name: "last", ID: "mine"}))
	require.NoError(t, other.Close())
	files, err := filepath.Glob(filepath.Join(folder, "[^~]*"+suffix)) // without the floor
	require.NoError(t, err)
	require.LessOrEqual(t, len(files), 1)
}

// childVariable is an environment variable that makes the test binary run as a child process, which
// repeatedly acquires a name in the folder that the variable names.
const childVariable = "FILELEASE_TEST_CHILD"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childVariable); folder != "" {
		child(folder)
		return
	}
	goleak.VerifyTestMain(m)
}

func child(folder string) {
	ctx := context.Background()
	p, err := Open(ctx, Options{Folder: folder})
	for err == nil {
		req := acquireRequest("n", abstractions.NewID())
		req.TTL = 150 * time.Millisecond
		var grant abstractions.Grant
		if grant, err = p.Acquire(ctx, req); errors.Is(err, abstractions.ErrHeld) {
			<-time.After(time.Millisecond)
			err = nil
			continue
		}
		if err == nil {
			fmt.Println(grant.Token)
			err = p.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: req.ID, Token: grant.Token})
		}
	}
	fmt.Println("failed:", err)
	os.Exit(1)
}

// T19, T54: processes are killed at arbitrary instructions, and later processes continue. No
// two grants have the same token.
func TestTrap_T19_KilledWriters(t *testing.T) {
	folder := t.TempDir()
	openTest(t, folder)
	var mu sync.Mutex
	seen := map[string]bool{}
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for i := range 12 {
				command := exec.CommandContext(t.Context(), os.Args[0])
				command.Env = append(os.Environ(), childVariable+"="+folder)
				output, err := command.StdoutPipe()
				if err != nil || command.Start() != nil {
					t.Error("no child", err)
					return
				}
				lines := bufio.NewReader(output)
				for range 3 + i%5 { // so that processes are killed at different points
					line, err := lines.ReadString('\n')
					mu.Lock()
					if err != nil || strings.HasPrefix(line, "failed") || seen[line] {
						t.Error(line, err)
					}
					seen[line] = true
					mu.Unlock()
				}
				_ = command.Process.Kill()
				rest, _ := io.ReadAll(lines)
				_ = command.Wait()
				if strings.Contains(string(rest), "failed") {
					t.Error(string(rest))
				}
			}
		})
	}
	wait.Wait()
	require.Greater(t, len(seen), 100)
}

// T127: after a token from a clock that was ahead is forgotten, later tokens are still greater.
func TestTrap_T127_TheFloorIsKeptAndObeyed(t *testing.T) {
	p := openTest(t, t.TempDir())
	recordstest.Floor(t, p, p.records)
}
