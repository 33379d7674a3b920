// Package panics turns panics of foreign code into errors. The manager uses it for providers, and package providerkit for the
// code below a provider.
package panics

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/distributedleasing/leasing/abstractions"
)

// Err is in the chain of each Error. The outcome of the request is unknown.
var Err = fmt.Errorf("%w: the provider panicked", abstractions.ErrUnavailable)

// Error is a panic, or the end of a goroutine by runtime.Goexit.
type Error struct {
	Value any    // the argument of panic; nil after runtime.Goexit
	Stack []byte // from runtime/debug.Stack; nil after runtime.Goexit

	reported atomic.Bool
}

// Error returns a text with the value and without the stack.
func (e *Error) Error() string {
	if e.Value == nil {
		return Err.Error() + ": it ended its goroutine"
	}
	return fmt.Sprintf("%v: %v", Err, e.Value)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return Err }

// First reports whether it is called for the first time. One panic may fail many requests, and is
// logged once.
func (e *Error) First() bool { return !e.reported.Swap(true) }

// Guard calls do, and returns its error. A panic of do becomes an *Error.
func Guard(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Error{Value: value, Stack: debug.Stack()}
		}
	}()
	return do()
}

// Go calls do in a goroutine, and then calls ended with the error that do returned. A panic of do becomes an *Error, and
// so does an end of the goroutine.
func Go(do func() error, ended func(error)) {
	go func() {
		var err error = &Error{}
		defer func() { ended(err) }()
		err = Guard(do)
	}()
}
