package history

import (
	"bytes"
	"context"
	"io"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// JSONLines returns a Writer that writes each entry, an abstractions.NamedEntry, as a
// line of JSON, with one Write for each batch. Several processes may write lines to a
// file that is open for appending (os.O_APPEND), on a local file system. If a Write
// stops in the middle of a line, that line stays unfinished, and the failed entries are written again, beginning on a new line.
func JSONLines(w io.Writer) Writer { return &lines{w: w} }

type lines struct {
	w          io.Writer
	unfinished bool // the last Write may have stopped within a line
}

func (l *lines) WriteHistory(_ context.Context, entries []abstractions.NamedEntry) error {
	var text bytes.Buffer
	if l.unfinished {
		text.WriteByte('\n')
	}
	for _, entry := range entries {
		if err := providerkit.WriteJSON(&text, entry); err != nil {
			return &abstractions.InvalidError{Field: "entries", Value: entry.Time, Want: "a year that JSON can have: " + err.Error()}
		}
	}
	n, err := l.w.Write(text.Bytes())
	l.unfinished = n > 0 && n < text.Len() || l.unfinished && n == 0
	if err == nil && n < text.Len() {
		err = io.ErrShortWrite
	}
	return err
}
