//go:build unix

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fatih/color"

	"github.com/distributedleasing/leasing"
)

// screen prints the timeline, line by line, so that it reads the same on a
// terminal and in a log. Colours are left out where there is no terminal, and
// where NO_COLOR is set.
type screen struct {
	out   io.Writer
	start time.Duration
}

var (
	green  = color.New(color.FgGreen, color.Bold).SprintFunc()
	yellow = color.New(color.FgYellow, color.Bold).SprintFunc()
	red    = color.New(color.FgRed, color.Bold).SprintFunc()
	faint  = color.New(color.Faint).SprintFunc()
)

func (s *screen) line(at time.Duration, who, text string) {
	_, _ = fmt.Fprintf(s.out, "%6.2fs  %-3s %s\n", (at - s.start).Seconds(), who, text)
}

// act announces what the demo does.
func (s *screen) act(format string, args ...any) {
	s.line(hostTime(), "", yellow(fmt.Sprintf("── "+format, args...)))
}

// show shows what a worker has reported.
func (s *screen) show(r report) {
	text := string(r.Kind)
	switch r.Kind {
	case standing:
		text = faint("stands for election")
	case elected:
		text = green(pad("leads with token %d", r.Token)) + trust(r)
	case wrote:
		text = pad("writes row %d", r.Row) + trust(r)
	case lost:
		text = red("no longer leads: " + r.Text)
	case refused:
		text = red("its late write: " + r.Text)
	case late:
		text = red(fmt.Sprintf("writes row %d without a lease!", r.Row))
	case failed:
		text = red("fails: " + r.Text)
	case stopping:
		text = "finishes its work"
	case resigned:
		text = "has released the lease"
	case exited:
		text = faint("is gone: " + r.Text)
	}
	s.line(r.At, r.Worker, text)
}

// wait shows how long the lease of a leader that says nothing has to run.
func (s *screen) wait(record leasing.Record, err error) {
	left, _ := record.Remaining()
	switch {
	case err != nil:
		s.line(hostTime(), "", red(err.Error()))
	case !record.Held:
		s.line(hostTime(), "", faint("nobody has the lease"))
	default:
		s.line(hostTime(), "", faint(pad("the lease is still %s's", record.Owner)+" left "+bar(left)))
	}
}

func pad(format string, args ...any) string {
	return fmt.Sprintf("%-38s", fmt.Sprintf(format, args...))
}

func trust(r report) string { return "trust " + bar(r.Trust) }

// bar shows how much of a TTL is left.
func bar(left time.Duration) string {
	const cells = 15
	full := min(cells, int((left*cells+ttl/2)/ttl))
	return fmt.Sprintf("%s%s %.2fs", strings.Repeat("█", full), strings.Repeat("░", cells-full), left.Seconds())
}

// takeOver is one change of leaders.
type takeOver struct {
	leader report // of the new leader's election
	before string // how the term before ended; "" for the first
	took   time.Duration
	// beyond is how long after the lease had run out, or would have.
	beyond   time.Duration
	released bool
}

// check holds a take-over against what it waited for. What "beyond" is counted
// from was read a little too early, so it is never too small.
func (t takeOver) check() error {
	switch {
	case t.released && t.beyond >= 0:
		return fmt.Errorf("%s took over only when the lease would have run out by itself", t.leader.Worker)
	case !t.released && t.beyond < 0:
		return fmt.Errorf("%s took over %v before the lease had run out", t.leader.Worker, -t.beyond)
	}
	return nil
}

func (s *screen) table(takeOvers []takeOver) {
	_, _ = fmt.Fprintln(s.out)
	table := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "leader\ttoken\tafter\ttake-over\tof which after the lease ran out")
	for _, t := range takeOvers {
		took, beyond := seconds(t.took), seconds(t.beyond)
		if t.released {
			beyond = "released"
		}
		if t.before == "" {
			t.before, took, beyond = "(the first)", "-", "-"
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", t.leader.Worker, t.leader.Token, t.before, took, beyond)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(s.out)
}

func (s *screen) passed(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "%s %s\n", green("ok"), fmt.Sprintf(format, args...))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
