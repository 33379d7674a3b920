package filelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLinks bounds the number of symbolic links that resolve follows, as on Linux
// (path_resolution(7)).
const maxLinks = 40

// resolve follows the symbolic links and dots of an absolute path like the operating
// system, even if the end of the path does not exist. It returns the resolved path and
// the file's info, or nil if no file exists at that path. A ".." after an element that
// does not exist is refused, since its target is unknown.
func resolve(path string) (string, fs.FileInfo, error) {
	const separator = string(filepath.Separator)
	at, todo, links := filepath.VolumeName(path)+separator, split(path[len(filepath.VolumeName(path)):]), 0
	missing, folder := false, asFolder(path)
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch {
		case part == "..":
			if missing {
				return "", nil, &os.PathError{Op: "resolve", Path: path, Err: fmt.Errorf("%s does not exist, so the meaning of .. there is unknown", at)}
			}
			at = filepath.Dir(at)
			continue
		case missing:
			at = filepath.Join(at, part)
			continue
		}
		next := filepath.Join(at, part)
		found, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			at, missing = next, true
		case err != nil:
			return "", nil, err
		case found.Mode()&fs.ModeSymlink == 0:
			if len(todo) > 0 && !found.IsDir() {
				return "", nil, &os.PathError{Op: "resolve", Path: path, Err: fmt.Errorf("%s is not a folder", next)}
			}
			at = next
		default:
			if links++; links > maxLinks {
				return "", nil, &os.PathError{Op: "resolve", Path: path, Err: errors.New("too many symbolic links")}
			}
			target, err := os.Readlink(next)
			if err != nil {
				return "", nil, err
			}
			folder = folder || len(todo) == 0 && asFolder(target)
			if filepath.IsAbs(target) {
				at = filepath.VolumeName(target) + separator
				target = target[len(filepath.VolumeName(target)):]
			}
			todo = append(split(target), todo...)
		}
	}
	if missing {
		return at, nil, nil
	}
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist): // not yet, or no longer
		return at, nil, nil
	case err != nil:
		return "", nil, err
	case !info.IsDir() && folder:
		return "", nil, &os.PathError{Op: "resolve", Path: path, Err: errors.New("not a folder, although the path ends like the path of a folder")}
	}
	return at, info, nil
}

// asFolder reports whether a path can only mean a folder, because of its last element.
func asFolder(path string) bool {
	path = filepath.ToSlash(path)
	return strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/..")
}

// split returns the parts of a path, without dots and empty parts.
func split(path string) (parts []string) {
	for part := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts
}

// foldsCase reports whether the file system of a folder ignores case. It looks up the folder's own
// name with upper and lower case swapped, and returns false if the name has no letters.
func foldsCase(folder string) bool {
	swapped := strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, filepath.Base(folder))
	if swapped == filepath.Base(folder) {
		return false
	}
	info, err := os.Stat(folder)
	other, err2 := os.Stat(filepath.Join(filepath.Dir(folder), swapped))
	return err == nil && err2 == nil && os.SameFile(info, other)
}

// fold returns the same spelling for all texts that differ only in case.
func fold(text string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, text)
}

// escape makes a path a part of a lease's name: control characters, bytes that are not UTF-8, and %
// are written as %XX, so different paths stay different.
func escape(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); {
		r, width := utf8.DecodeRuneInString(path[i:])
		part := path[i : i+width]
		i += width
		if r == '%' || r < 0x20 || r >= 0x7f && r < 0xa0 || r == utf8.RuneError && width == 1 {
			for _, c := range []byte(part) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		b.WriteString(part)
	}
	return b.String()
}
