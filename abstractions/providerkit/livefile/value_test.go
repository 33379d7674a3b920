package livefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// old is far enough in the past for every change to show in the time of modification.
var old = time.Now().Add(-time.Hour)

func write(t *testing.T, path, text string, at time.Time) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, os.Chtimes(path, at, at))
}

func wants(t *testing.T, v *Value[string], want string) {
	t.Helper()
	got, err := v.Get()
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestTextFollowsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	v := NewText(path, nil)
	_, err := v.Get()
	require.ErrorIs(t, err, os.ErrNotExist)

	write(t, path, " first\n", old)
	wants(t, v, "first")
	require.NoError(t, v.Stale())

	write(t, path, "second of another size", old)
	wants(t, v, "second of another size")
	write(t, path, "third, of the same sizes", old.Add(time.Minute))
	write(t, path, "fourth of the same sizes", old)
	wants(t, v, "fourth of the same sizes")
	write(t, path, "fifth, of the same sizes", old.Add(time.Minute))
	wants(t, v, "fifth, of the same sizes")

	require.NoError(t, os.Rename(path, path+".gone"))
	wants(t, v, "fifth, of the same sizes")
	require.ErrorIs(t, v.Stale(), os.ErrNotExist)
	write(t, path, " \n", old)
	wants(t, v, "fifth, of the same sizes")
	require.ErrorContains(t, v.Stale(), "is empty")
	require.NoError(t, os.Rename(path+".gone", path))
	wants(t, v, "fifth, of the same sizes")
	require.NoError(t, v.Stale())
}

// A change within the resolution of the file system's times shows only in the contents.
func TestAChangeThatLooksTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	now := time.Now()
	v := NewText(path, nil)
	for _, text := range []string{"one", "two", "six"} {
		write(t, path, text, now)
		wants(t, v, text)
	}
}

// Kubernetes swaps the folder behind two symbolic links; the new file may have the same time and
// size.
func TestASwapOfSymbolicLinks(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"v1", "v2"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "token"), version, old)
	}
	data := filepath.Join(dir, "..data")
	require.NoError(t, os.Symlink("v1", data))
	require.NoError(t, os.Symlink(filepath.Join("..data", "token"), filepath.Join(dir, "token")))
	v := NewText(filepath.Join(dir, "token"), nil)
	wants(t, v, "v1")
	require.NoError(t, os.Symlink("v2", data+"_tmp"))
	require.NoError(t, os.Rename(data+"_tmp", data))
	wants(t, v, "v2")
}

func TestContentsThatAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	parsed := 0
	v := NewText(path, func(text string) error {
		parsed++
		if text == "bad" {
			return errors.New("no good")
		}
		return nil
	})
	write(t, path, "good", old)
	wants(t, v, "good")
	write(t, path, "bad", old)
	for range 3 {
		wants(t, v, "good")
		require.ErrorContains(t, v.Stale(), "no good")
	}
	require.Equal(t, 2, parsed, "once each")
}

func TestFilesThatReadingUsesUp(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString("once")
	require.NoError(t, errors.Join(err, w.Close()))
	opened := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(opened); err != nil {
		t.Skip("this system has no /dev/fd")
	}
	v := NewText(opened, nil)
	wants(t, v, "once")
	wants(t, v, "once")
	require.NoError(t, v.Stale())
}
