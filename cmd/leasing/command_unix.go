//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultPath is the path of execvp(3) in glibc if PATH is not set.
const defaultPath = "/bin:/usr/bin"

// lookPath finds a command as execvp(3) does: in the folders of PATH, relative ones and the working folder ("")
// among them, unless its name has a slash. A file that can't be run is the error only if no other folder has the command.
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	folders, set := os.LookupEnv("PATH")
	if !set {
		folders = defaultPath
	}
	err := error(&exitError{exitNotFound, fmt.Errorf("%s: %w", name, errNotFound)})
	if name == "" {
		return "", err
	}
	for _, folder := range strings.Split(folders, ":") {
		path := name
		if folder != "" {
			path = folder + "/" + name
		}
		switch problem := executable(path); {
		case problem == nil:
			return path, nil
		case errors.Is(problem, unix.EACCES):
			err = problem
		}
	}
	return "", err
}

var errNotFound = errors.New("command not found")

// executable returns the reason why a file can't be run, with its exit code.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		err = errors.Unwrap(err)
	case info.IsDir():
		err = unix.EACCES
	default:
		err = unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
	}
	if err == nil {
		return nil
	}
	return &exitError{cannotRun(err), fmt.Errorf("%s: %w", path, err)}
}

// catchSignals has the signals of this process come to the channel, unless they were ignored when it began.
func (w *work) catchSignals() {
	w.ignored = ignoredAtStart()
	for _, s := range forwarded {
		if !w.ignored.has(s.(unix.Signal)) { // nohup stays in force
			signal.Notify(w.signals, s)
		}
	}
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // a reader of standard error that has gone does not end the command
}

// roomForSqlite returns an error if a limit of address space leaves no room for an SQLite file: a writer and a reader.
func roomForSqlite() error {
	const each, others = 256 << 20, 128 << 20 // of the library for each connection, and of all else
	room, err := unix.Mmap(-1, 0, 2*each+others, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("ulimit -v leaves no room for SQLite, which reserves 256 MiB of address space for each connection: %w", err)
	}
	return unix.Munmap(room)
}
