package supervise

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

// Signals are the signals that this process receives and passes on to a command.
type Signals struct {
	caught  chan os.Signal
	ignored signalSet // since before this process began
}

// NewSignals returns signals that are not caught before Catch.
func NewSignals() *Signals { return &Signals{caught: make(chan os.Signal, 16)} }

// CancelOnSignal calls a function whose context is canceled by a signal that ends leasing. In that case it returns an
// *exit.Error with the code for that signal, whatever the function returns.
func (s *Signals) CancelOnSignal(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case sig := <-s.caught:
				if endsLeasing(sig) {
					cancel(&exit.Error{Code: exit.Signal + int(sig.(syscall.Signal))})
					return
				}
			case <-done:
				return
			}
		}
	}()
	err := do(ctx)
	close(done)
	<-stopped
	if signalled := (*exit.Error)(nil); errors.As(context.Cause(ctx), &signalled) {
		return signalled
	}
	return err
}
