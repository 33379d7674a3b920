package livefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// minDistinctAge is the age of a change after which, on every file system, a later change has a
	// different time of modification. FAT counts in steps of two seconds.
	minDistinctAge = 2 * time.Second
	// maxSize bounds the size of a file, in bytes.
	maxSize = 16 << 20
)

// Value is the result of parsing some files, which are read again when they change. It is safe for
// concurrent use. Get waits for the file system, and can't be cancelled.
type Value[T any] struct {
	parse func(contents [][]byte) (T, error)

	mu      sync.Mutex
	files   []file
	tried   [][]byte // the contents that were parsed last
	refused error    // the error of parse for tried
	value   T
	good    bool  // value is set
	stale   error // nil if value was parsed from the newest contents
}

// file is one file, with its last contents.
type file struct {
	name string
	text []byte
	info os.FileInfo // the state of the file then; nil if it could not be read
	racy bool        // a later change may look the same
}

// New makes a Value of files, without reading the files yet. parse gets the contents in the order
// of the names. If parse fails, the last value stays.
func New[T any](parse func(contents [][]byte) (T, error), names ...string) *Value[T] {
	v := &Value[T]{parse: parse, files: make([]file, len(names))}
	for i, name := range names {
		v.files[i].name = name
	}
	return v
}

// NewText makes a Value of the text in a file, without white space at its ends. An empty text is an
// error. check may refuse a text, and may be nil. NewText reads nothing.
func NewText(name string, check func(text string) error) *Value[string] {
	return New(func(contents [][]byte) (text string, err error) {
		if text = string(bytes.TrimSpace(contents[0])); text == "" {
			return "", fmt.Errorf("%s is empty", name)
		}
		if check != nil {
			err = check(text)
		}
		return text, err
	}, name)
}

// Get returns the value of the newest contents that are good. The error is the reason why there are
// none yet.
func (v *Value[T]) Get() (T, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.changed() {
		v.stale = v.read()
	}
	if !v.good {
		return v.value, v.stale
	}
	return v.value, nil
}

// Stale returns the reason why the last call of Get returned the value of earlier contents, or nil
// if it returned the value of the newest contents.
func (v *Value[T]) Stale() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stale
}

// changed reports whether a file may differ from its last contents. Caller holds mu.
func (v *Value[T]) changed() bool { return slices.ContainsFunc(v.files, file.changed) }

func (f file) changed() bool {
	if f.info == nil || f.racy {
		return true
	}
	if !f.info.Mode().IsRegular() {
		return false
	}
	info, err := os.Stat(f.name)
	return err != nil || !sameFile(info, f.info)
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// read reads the files that have changed, and parses the contents of all files. Caller holds mu.
func (v *Value[T]) read() error {
	var failed error
	contents := make([][]byte, len(v.files))
	for i := range v.files {
		f := &v.files[i]
		if f.changed() {
			failed = errors.Join(failed, f.read())
		}
		contents[i] = f.text
	}
	if failed != nil {
		return failed
	}
	if v.tried != nil && slices.EqualFunc(contents, v.tried, bytes.Equal) {
		return v.refused
	}
	v.tried = contents
	value, err := v.parse(contents)
	if v.refused = err; err == nil {
		v.value, v.good = value, true
	}
	return err
}

// read reads a file, and fails if the file changes during the read.
func (f *file) read() error {
	f.info = nil
	opened, err := os.Open(f.name)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	before, err := opened.Stat()
	if err != nil {
		return err
	}
	began := time.Now()
	text, err := io.ReadAll(io.LimitReader(opened, maxSize))
	if err != nil {
		return err
	}
	if len(text) == maxSize {
		return fmt.Errorf("%s is too long for a secret or a certificate", f.name)
	}
	after, err := opened.Stat()
	if err != nil {
		return err
	}
	if before.Mode().IsRegular() && (!sameFile(before, after) || after.Size() != int64(len(text))) {
		return fmt.Errorf("%s changed during the read", f.name)
	}
	f.text, f.info, f.racy = text, after, before.Mode().IsRegular() && began.Sub(after.ModTime()) < minDistinctAge
	return nil
}
