package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/distributedleasing/leasing/chaos/torture"
)

// every is how often there is a line where nobody watches.
const every = 10 * time.Second

// progress shows how a run goes: in one line that changes on a terminal, and in a
// line now and then elsewhere.
func progress(out io.Writer, plan string) func(torture.Progress) {
	terminal := isTerminal(out)
	var last time.Duration
	return func(p torture.Progress) {
		text := fmt.Sprintf("%-18s %4.0fs of %3.0fs  %-17s %6d leases %5d lost %7d faults %8d requests",
			plan, min(p.Elapsed, p.For).Seconds(), p.For.Seconds(), p.Phase, p.Grants, p.Losses, p.Faults, p.Operations)
		switch {
		case terminal && p.Phase == "checking":
			fmt.Fprintf(out, "\r%s\r", fmt.Sprintf("%*s", len(text), ""))
		case terminal:
			fmt.Fprintf(out, "\r%s", text)
		case p.Phase == "running" && p.Elapsed-last >= every:
			last = p.Elapsed
			fmt.Fprintln(out, text)
		}
	}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
