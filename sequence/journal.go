package sequence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/distributedleasing/leasing"
)

// Journal keeps finished results in a local file while the store can't be reached. Each record is a line with a
// checksum, synced to disk before append returns. If a crash leaves the last record incomplete, without the end of its line, the
// next opening cuts the record off, since append had not returned. A Journal is safe for concurrent use. One Journal at a time
// can open the file, which is locked on systems with flock(2).
type Journal struct {
	mu      sync.Mutex
	file    *os.File
	size    int64           // of the intact part; the rest of a failed append is cut off
	pending []journalRecord // in order
	damaged []int           // line numbers, found when the file was opened
}

// journalVersion is the version of the lines that this release writes. Release 0.1.0 has version 1.
const journalVersion = 1

// journalRecord is a line: a result or, if Done is set, a mark that a result is settled.
type journalRecord struct {
	Version int    `json:"v"`
	ID      string `json:"id"`
	Stream  string `json:"stream,omitempty"`
	Unsettled
	Done bool `json:"done,omitempty"`
}

// DamagedError says that lines of a journal can't be read. They stay in the file, for a person to
// inspect.
type DamagedError struct {
	Path  string
	Lines []int // from 1
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("sequence: journal %s: lines %v are damaged, and their results are not settled; keep the file, and inspect these lines", e.Path, e.Lines)
}

// ErrJournalInUse is returned by OpenJournal if another Journal has the file open, in this process or in
// another.
var ErrJournalInUse = errors.New("another process, or another Journal of this one, has the file open")

// OpenJournal opens or makes a journal. A file that another Journal has open is refused with ErrJournalInUse: try again when that
// process has ended, or give each process its own file. A file with lines of a later release is refused with an error that
// matches leasing.ErrNotSetUp, and the file is not changed.
func OpenJournal(path string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sequence: journal: %w", err)
	}
	j := &Journal{file: file}
	if err = lockFile(file); err == nil {
		err = j.load()
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("sequence: journal: %w", err)
	}
	return j, nil
}

// syncFolder makes a new file survive a power failure. Every opening calls it, since an earlier process may have created
// the file just before a crash.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func (j *Journal) load() error {
	text, err := io.ReadAll(j.file)
	if err != nil {
		return err
	}
	for line := 1; len(text) > 0; line++ {
		one, rest, whole := bytes.Cut(text, []byte("\n"))
		var r journalRecord
		switch {
		case !whole && !parse(one[:len(one)-1], &r): // torn by a crash, or by a full disk
			return j.file.Truncate(j.size)
		case (!whole || parse(one, &r)) && r.Version != journalVersion:
			return fmt.Errorf("%w: line %d is of version %d, and this release knows version %d: use the release that wrote the line", leasing.ErrNotSetUp, line, r.Version, journalVersion)
		case !whole: // only the end of the line is damaged
			if _, err := j.file.WriteAt([]byte("\n"), j.size+int64(len(one))-1); err != nil {
				return err
			}
			one = one[:len(one)-1]
			j.apply(r)
		case parse(one, &r):
			j.apply(r)
		default:
			j.damaged = append(j.damaged, line)
		}
		j.size += int64(len(one)) + 1
		text = rest
	}
	return nil
}

// apply applies a record. It does not lock mu.
func (j *Journal) apply(r journalRecord) {
	if !r.Done {
		j.pending = append(j.pending, r)
		return
	}
	j.pending = slices.DeleteFunc(j.pending, func(p journalRecord) bool { return p.ID == r.ID })
}

func parse(line []byte, r *journalRecord) bool {
	sum, text, ok := bytes.Cut(line, []byte(" "))
	return ok && string(sum) == checksum(text) && json.Unmarshal(text, r) == nil
}

func checksum(text []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) }

// append writes a result, and returns when the result is on disk.
func (j *Journal) append(stream string, late Unsettled) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.write(journalRecord{ID: fmt.Sprintf("%s/%d/%d", stream, late.Seq, j.size), Stream: stream, Unsettled: late})
}

// write appends a record. Caller holds mu.
func (j *Journal) write(r journalRecord) error {
	r.Version = journalVersion
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	line := fmt.Appendf(nil, "%s %s\n", checksum(text), text)
	if _, err = j.file.WriteAt(line, j.size); err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		_ = j.file.Truncate(j.size) // if this fails, the next opening truncates the file
		return fmt.Errorf("sequence: journal: %w", err)
	}
	j.size += int64(len(line))
	j.apply(r)
	return nil
}

// Pending returns the unsettled results of a stream, from oldest to newest.
func (j *Journal) Pending(stream string) []Unsettled {
	var all []Unsettled
	for _, r := range j.records(stream) {
		all = append(all, r.Unsettled)
	}
	return all
}

func (j *Journal) records(stream string) (all []journalRecord) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.pending {
		if r.Stream == stream {
			all = append(all, r)
		}
	}
	return all
}

// Damaged returns a *DamagedError if the journal had unreadable lines when it was opened,
// and nil otherwise.
func (j *Journal) Damaged() error {
	if len(j.damaged) == 0 {
		return nil
	}
	return &DamagedError{j.file.Name(), slices.Clone(j.damaged)}
}

// markSettled marks a result as settled, and empties the file if no other result and no damaged line is
// left.
func (j *Journal) markSettled(r journalRecord) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.write(journalRecord{ID: r.ID, Done: true}); err != nil {
		return err
	}
	if len(j.pending) > 0 || len(j.damaged) > 0 {
		return nil
	}
	if err := j.file.Truncate(0); err != nil {
		return fmt.Errorf("sequence: journal: %w", err)
	}
	j.size = 0
	return j.file.Sync()
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }
