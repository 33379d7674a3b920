//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

// defaultPath is the search path of execvp(3) in glibc if PATH is not set.
const defaultPath = "/bin:/usr/bin"

// LookPath finds a command as execvp(3) does: in the folders of PATH, including relative folders and the working
// folder (""), unless its name has a slash. A file that can't be run is an error only if no other folder has the
// command.
func LookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	folders, set := os.LookupEnv("PATH")
	if !set {
		folders = defaultPath
	}
	err := error(&exit.Error{Code: exit.NotFound, Err: fmt.Errorf("%s: %w", name, errNotFound)})
	if name == "" {
		return "", err
	}
	for _, folder := range strings.Split(folders, ":") {
		path := name
		if folder != "" {
			path = folder + "/" + name
		}
		switch runErr := executable(path); {
		case runErr == nil:
			return path, nil
		case errors.Is(runErr, unix.EACCES):
			err = runErr
		}
	}
	return "", err
}

var errNotFound = errors.New("command not found")

// executable returns the reason why a file can't be run, with an exit code, or nil.
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
	return &exit.Error{Code: cannotRun(err), Err: fmt.Errorf("%s: %w", path, err)}
}
