package filelease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/disk"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
)

const (
	suffix     = ".lease"
	maxKey     = 255 - len(suffix) // a file name has up to 255 bytes
	lockFolder = ".locks"          // no key begins with a dot
	locks      = 256
)

// folder is a cas.Store of files. The version of an item is its text.
type folder struct {
	path    string
	oneHost bool              // no other host uses the folder
	queues  [locks]sync.Mutex // let one goroutine at a time poll for each lock
}

func (f *folder) open(create bool) error {
	if create {
		if err := os.MkdirAll(f.path, 0o777); err != nil {
			return err
		}
	}
	if err := f.check(); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(f.path, lockFolder), 0o777)
}

// check returns an error unless the folder exists and is on a disk of the host.
func (f *folder) check() error {
	err := check(f.path)
	if f.oneHost && errors.Is(err, disk.ErrNetwork) {
		return nil
	}
	return err
}

func (f *folder) file(key string) string { return filepath.Join(f.path, key+suffix) }

// Get reads a file. The file is complete, because a rename has put it in place.
func (f *folder) Get(_ context.Context, key string) (cas.Item, error) {
	data, err := read(f.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return cas.Item{}, f.check()
	}
	if err == nil && !json.Valid(data) && f.beforeBoot(key) {
		data = nil
	}
	return itemOf(key, data), err
}

// read reads a regular file. Opening or reading another kind of file may block forever.
func read(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket, or a device that does not exist
		return nil, notRegularError(path)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, notRegularError(path))
	}
	return io.ReadAll(file)
}

var errNotRegular = errors.New("not a regular file")

func notRegularError(path string) error {
	return fmt.Errorf("%w: %s is %w, and has to be removed", abstractions.ErrNotSetUp, path, errNotRegular)
}

func itemOf(key string, data []byte) cas.Item {
	return cas.Item{Key: key, Data: data, Version: string(data)}
}

// beforeBoot reports whether a file was written before the host's latest boot. Then
// its holder is dead.
func (f *folder) beforeBoot(key string) bool {
	info, err := os.Stat(f.file(key))
	now := hostclock.Now()
	return err == nil && now.Boot != "" && info.ModTime().Before(now.Wall.Add(-now.SinceBoot))
}

// Put replaces a file.
func (f *folder) Put(ctx context.Context, old cas.Item, _ *providerkit.Record, data []byte) (cas.Item, error) {
	return itemOf(old.Key, data), f.underLock(ctx, old, func(newPath string) error {
		err := write(newPath, data)
		if err == nil {
			err = os.Rename(newPath, f.file(old.Key))
		}
		if err != nil {
			_ = os.Remove(newPath) // the disk may be full
		}
		return err
	})
}

// Delete deletes a file.
func (f *folder) Delete(ctx context.Context, item cas.Item) error {
	return f.underLock(ctx, item, func(string) error { return os.Remove(f.file(item.Key)) })
}

// underLock runs do under the lock of a file, if the file is unchanged. newPath is
// the name for a new file.
func (f *folder) underLock(ctx context.Context, item cas.Item, do func(newPath string) error) error {
	n := crc32.ChecksumIEEE([]byte(item.Key)) % locks
	f.queues[n].Lock() // the shell ends a call whose context ends while it waits here
	defer f.queues[n].Unlock()
	path := filepath.Join(f.path, lockFolder, strconv.Itoa(int(n)))
	lock, err := lockFile(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // which unlocks the file
	stored, err := f.Get(ctx, item.Key)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if stored.Version != item.Version {
		return cas.ErrConflict
	}
	return do(path + ".new")
}

// lockFile polls for a lock, because a wait in the kernel would ignore ctx.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o666) // permission to read is enough to lock
		if err != nil {
			return nil, err
		}
		locked, err := tryLock(file)
		if locked {
			return file, nil
		}
		_ = file.Close()
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// write makes a new file and syncs it, so that the renamed file is whole after a
// crash of the host. It first removes the file that a killed writer has left.
func write(path string, data []byte) error {
	_ = os.Remove(path)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

// List reads the files that follow a key, in the order of their names. It leaves out files that this process may
// not read, and all files that are not regular.
func (f *folder) List(ctx context.Context, q cas.ListQuery) (items []cas.Item, next string, err error) {
	entries, err := os.ReadDir(f.path)
	for _, entry := range entries {
		key, ok := strings.CutSuffix(entry.Name(), suffix)
		if !ok || q.After != "" && entry.Name() <= q.After+suffix {
			continue
		}
		if len(items) == q.Limit {
			return items, items[q.Limit-1].Key, err
		}
		item, failed := f.Get(ctx, key)
		if errors.Is(failed, errNotRegular) || errors.Is(failed, fs.ErrPermission) || errors.Is(failed, syscall.ELOOP) {
			if failed = f.check(); failed == nil {
				continue
			}
		}
		item.Key = key // even if the file was deleted after it was listed
		items, err = append(items, item), errors.Join(err, failed, ctx.Err())
	}
	return items, "", err
}
