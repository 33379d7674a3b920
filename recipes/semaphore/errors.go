package semaphore

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing"
)

// FullError says that no permit was free. It matches leasing.ErrHeld.
type FullError struct {
	Name    string // of the semaphore
	Permits int
	// Err, unless nil, is the last answer about one of the slots: it carries a
	// *leasing.HeldError that says who holds that one.
	Err error
}

func (e *FullError) Error() string {
	text := fmt.Sprintf("semaphore %q: none of %d permits is free", e.Name, e.Permits)
	if e.Err != nil {
		text += "; one of them: " + e.Err.Error()
	}
	return text
}

// Is makes the error match leasing.ErrHeld, also where nothing was asked since
// this process holds all the permits itself.
func (e *FullError) Is(target error) bool { return target == leasing.ErrHeld }
func (e *FullError) Unwrap() error        { return e.Err }

// obstacle is what stands in the way of a permit if last was the last answer.
func (s *Semaphore) obstacle(last error) error {
	if last == nil || errors.Is(last, leasing.ErrHeld) {
		return &FullError{Name: s.options.Name, Permits: s.options.Permits, Err: last}
	}
	return last
}

// gaveUp is the error of a wait that the end of ctx has ended.
func (s *Semaphore) gaveUp(ctx context.Context, obstacle error) error {
	end := context.Cause(ctx)
	if obstacle == nil {
		return fmt.Errorf("semaphore %q: %w", s.options.Name, end)
	}
	return fmt.Errorf("semaphore %q: %w; until then: %w", s.options.Name, end, obstacle)
}

// closedError is what a wait ends with that the manager can't end.
func (s *Semaphore) closedError() error {
	return &leasing.Error{Op: "acquire", Provider: s.manager.Capabilities().Provider, Name: s.options.Name, Err: leasing.ErrClosed}
}
