package sqlitelease

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// pipe wakes a process: it is a FIFO beside the database file, fifo(7), to which others write.
// A write wakes only this process, and the pipe of a dead process has no reader.
type pipe struct {
	path    string
	file    *os.File
	text    *bufio.Reader
	message func(text string) (key string) // "" if there is nothing to wake now
}

// pipeAge is the age at which other processes remove a pipe without a reader.
const pipeAge = time.Minute

// makePipe makes a pipe with the permissions of the database.
func makePipe(database, channel string, message func(string) string) (*pipe, error) {
	removePipes(database)
	info, err := os.Stat(database)
	if err != nil {
		return nil, err
	}
	p := &pipe{path: pipePath(database, channel), message: message}
	if err := syscall.Mkfifo(p.path, uint32(info.Mode().Perm())); err != nil {
		return nil, err
	}
	_ = os.Chmod(p.path, info.Mode().Perm()) // despite the umask
	// This process opens the pipe for writing too, so that reads never return io.EOF.
	if p.file, err = os.OpenFile(p.path, os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0); err != nil {
		return nil, errors.Join(err, os.Remove(p.path))
	}
	p.text = bufio.NewReader(p.file)
	return p, nil
}

// removePipes removes the pipes of dead processes.
func removePipes(database string) {
	folder, prefix := filepath.Split(pipePath(database, ""))
	found, _ := os.ReadDir(folder)
	for _, entry := range found {
		if entry.Type() != os.ModeNamedPipe || !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > pipeAge {
			writePipe(filepath.Join(folder, entry.Name()), "")
		}
	}
}

// writePipe writes to a pipe, if there is text to write. It reports whether the pipe's process may be
// alive, and removes the pipe of a dead process. A full pipe means that its process hangs: the text
// is dropped.
func writePipe(path, text string) (alive bool) {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, syscall.ENXIO): // no reader
		_ = syscall.Unlink(path)
		return false
	case err != nil:
		return !errors.Is(err, syscall.ENOENT)
	}
	if text != "" {
		_, _ = syscall.Write(fd, []byte(text))
	}
	_ = syscall.Close(fd)
	return true
}

// Receive returns the next key to wake.
func (p *pipe) Receive(ctx context.Context) (key string, err error) {
	for {
		_ = p.file.SetReadDeadline(time.Time{})
		stop := providerkit.AfterFunc(ctx, func() { _ = p.file.SetReadDeadline(time.Now()) })
		text, err := p.text.ReadString('\n')
		switch stop(); {
		case err == nil:
			return p.message(strings.TrimSuffix(text, "\n")), nil
		case ctx.Err() != nil || !errors.Is(err, os.ErrDeadlineExceeded): // otherwise the deadline came late, from an earlier ctx
			return "", err
		}
	}
}

// Ping checks that the pipe is still at its path.
func (p *pipe) Ping(context.Context) error {
	ours, err := p.file.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Lstat(p.path); err != nil || !os.SameFile(ours, there) {
		return fmt.Errorf("the pipe %s was removed", p.path)
	}
	now := time.Now()
	return os.Chtimes(p.path, now, now)
}

func (p *pipe) Close() {
	_ = os.Remove(p.path)
	_ = p.file.Close()
}
