//go:build unix

package filelease

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
)

// T180: an unreadable file, a folder, a link that points to itself, a socket or a FIFO does not end a listing or a sweep, or
// block a goroutine.
func TestTrap_T180_OddFilesAreLeftOut(t *testing.T) {
	for what, place := range map[string]func(t *testing.T, path string){
		"folder": func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
		"FIFO":   func(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) },
		"socket": func(t *testing.T, path string) {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
		},
		"device":           func(t *testing.T, path string) { require.NoError(t, os.Symlink("/dev/zero", path)) },
		"broken link":      func(t *testing.T, path string) { require.NoError(t, os.Symlink("nowhere", path)) },
		"link to itself":   func(t *testing.T, path string) { require.NoError(t, os.Symlink(filepath.Base(path), path)) },
		"another's record": func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("{}"), 0)) },
	} {
		t.Run(what, func(t *testing.T) {
			folder := t.TempDir()
			p := openTest(t, folder)
			p.records.Retention = time.Nanosecond
			p.mustAcquire(t, "b", "id")
			g := p.mustAcquire(t, "old", "id")
			require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "old", ID: "id", Token: g.Token}))
			for _, name := range []string{"a", "zz"} { // before and after
				place(t, filepath.Join(folder, name+suffix))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			page, err := p.List(ctx, abstractions.ListRequest{HeldOnly: true})
			require.NoError(t, err)
			require.Len(t, page.Records, 1)
			_, err = p.Sweep(ctx)
			require.NoError(t, err)
			require.NoFileExists(t, filepath.Join(folder, "old"+suffix))
			if _, err = p.Acquire(ctx, acquireRequest("zz", "id")); err != nil {
				require.NoError(t, ctx.Err(), "the error comes at once")
			}
		})
	}
}

// A folder that the process may no longer read does not count as empty.
func TestAClosedFolderIsNotEmpty(t *testing.T) {
	f := &folder{path: t.TempDir()}
	require.NoError(t, f.open(false))
	require.NoError(t, os.WriteFile(f.file("a"), []byte("{}"), 0o600))
	require.NoError(t, os.Mkdir(f.file("b"), 0o700))
	before := check
	check = func(string) error { return os.ErrPermission }
	t.Cleanup(func() { check = before })
	_, _, err := f.List(t.Context(), cas.ListQuery{Limit: 10})
	require.ErrorIs(t, err, os.ErrPermission)
}
