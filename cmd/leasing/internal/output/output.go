// Package output prints the results of the command, its warnings and its errors.
package output

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Streams are the standard streams, or those of a test.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Printer prints to its streams.
type Printer struct {
	Streams
	Format string // "table" or "json"

	warning     sync.Mutex // guards lastWarning
	lastWarning string
}

// JSON prints a value as one line.
func (p *Printer) JSON(value any) error {
	return providerkit.WriteJSON(p.Out, value)
}

// Table prints rows, the first of which is the header. It makes the text of other users inert: see Inert.
func (p *Printer) Table(rows [][]string) error {
	w := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, Inert(strings.Join(row, "\t")))
	}
	return w.Flush()
}

// All prints items, as a table with a header or as one line of JSON for each item.
func All[T any](p *Printer, head []string, items []T, row func(T) []string) error {
	rows := [][]string{head}
	for _, item := range items {
		rows = append(rows, row(item))
		if p.Format == "json" {
			if err := p.JSON(item); err != nil {
				return err
			}
		}
	}
	if p.Format == "json" {
		return nil
	}
	return p.Table(rows)
}

// Inert escapes characters that are invisible on a terminal or change how others look, except for tabs.
func Inert(text string) string {
	cells := strings.Split(text, "\t")
	for i := range cells {
		cells[i] = providerkit.Visible(cells[i])
	}
	return strings.Join(cells, "\t")
}

// Rounded returns a duration as text, without insignificant digits.
func Rounded(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// Warn prints a warning for people, but not the same warning twice in a row.
func (p *Printer) Warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.warning.Lock()
	defer p.warning.Unlock()
	if text != p.lastWarning {
		fmt.Fprintln(p.Err, "leasing:", Inert(text))
	}
	p.lastWarning = text
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
