package app

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"sync"
)

// stepper is the log of -step. The process blocks at each record until its parent answers with a line, so the parent can kill
// or pause the process at that record.
type stepper struct {
	slog.Handler
	mu    sync.Mutex
	lines chan struct{}
}

// newStepper returns a stepper, which calls stop at the end of standard input.
func newStepper(stop func()) *stepper {
	s := &stepper{
		Handler: slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}),
		lines:   make(chan struct{}),
	}
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			s.lines <- struct{}{}
		}
		close(s.lines)
		stop()
	}()
	return s
}

// Handle ignores ctx while it waits, since a paused process can't react to a context. Locks mu, so that one record at a time
// waits.
func (s *stepper) Handle(ctx context.Context, r slog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Handler.Handle(ctx, r); err != nil {
		return err
	}
	<-s.lines
	return nil
}
