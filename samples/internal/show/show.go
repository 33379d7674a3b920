package show

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/distributedleasing/leasing/samples/internal/place"
)

// patience bounds a whole run: far more than any takes, also on a slow machine.
const patience = time.Minute

// Show is one run of a sample. Its methods are for one goroutine.
type Show struct {
	*Crew
	Place place.Place
	out   io.Writer
	start time.Time
}

// Play is what a sample does with its workers. It checks the outcome itself,
// and returns an error if a promise was broken.
type Play func(ctx context.Context, s *Show) error

// Main is the main function of the named sample: of the run, or, in a process
// that the run has started, of a worker. work may be nil.
func Main(sample string, play Play, work Work) {
	MainOfWorker(work)
	runtime.LockOSThread() // a worker is an orphan when the thread that started it ends: golang.org/issue/27505
	url := flag.String("url", "", "where the leases are: redis://..., rediss://..., postgres://... or sqlite:///path (default: a temporary SQLite file)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Run(ctx, sample, *url, os.Stdout, play)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", sample, err)
		os.Exit(1)
	}
}

// Run sets the place up, plays, and clears everything away.
func Run(ctx context.Context, sample, url string, out io.Writer, play Play) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the sample took longer than %v", patience))
	defer cancel()
	where, clear, err := place.SetUp(ctx, sample, url)
	if err != nil {
		return err
	}
	defer func() {
		if cleared := clear(); err == nil {
			err = cleared
		}
	}()
	s := &Show{Crew: newCrew(where), Place: where, out: out, start: time.Now()}
	defer s.end()
	return play(ctx, s)
}

// Line prints what somebody does now.
func (s *Show) Line(who, format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "%6.2fs  %-4s %s\n", time.Since(s.start).Seconds(), who, fmt.Sprintf(format, args...))
}

// Act prints what the play does.
func (s *Show) Act(format string, args ...any) { s.Line("", "── "+format, args...) }

// OK prints a check that has passed.
func (s *Show) OK(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "ok  %s\n", fmt.Sprintf(format, args...))
}

// Out is where tables go.
func (s *Show) Out() io.Writer { return s.out }
