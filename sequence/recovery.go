package sequence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Step is one way to close a number whose lease has run out.
type Step struct {
	// Name is for metrics and logs.
	Name string
	// Recover decides from the number's entry and its saved work. The zero Recovery hands the number
	// to the next step. After an error or a panic no further step runs, and the number is retried
	// later. ctx ends before another cleaner can claim the number.
	Recover func(ctx context.Context, e Entry) (Recovery, error)
}

// Recovery is the decision of a step. The zero Recovery passes the number to the next
// step.
type Recovery struct {
	Outcome Outcome // OutcomeRecovered or OutcomeGap
	Payload []byte  // of OutcomeRecovered
	Reason  string  // of OutcomeGap; default ReasonExpired
}

// CommitCompleted is the step that commits completed work unchanged under a new number.
func CommitCompleted() Step {
	return Step{"completed", func(_ context.Context, e Entry) (Recovery, error) {
		if e.Work.Phase != Completed {
			return Recovery{}, nil
		}
		return Recovery{Outcome: OutcomeRecovered, Payload: e.Work.Data}, nil
	}}
}

// FinishPartial returns the step that makes a payload from partial work. If finish can't make a payload from the work, it returns
// ok == false.
func FinishPartial(finish func(ctx context.Context, e Entry) (payload []byte, ok bool, err error)) Step {
	return Step{"partial", func(ctx context.Context, e Entry) (Recovery, error) {
		if e.Work.Phase != Partial {
			return Recovery{}, nil
		}
		payload, ok, err := finish(ctx, e)
		if err != nil || !ok {
			return Recovery{}, err
		}
		return Recovery{Outcome: OutcomeRecovered, Payload: payload}, nil
	}}
}

// MakeGap is the step that records a gap. It comes last.
func MakeGap() Step {
	return Step{"gap", func(context.Context, Entry) (Recovery, error) { return Recovery{Outcome: OutcomeGap}, nil }}
}

// Load is the load of a system.
type Load int

// The loads. UnknownLoad counts as high.
const (
	UnknownLoad Load = iota
	LowLoad
	MediumLoad
	HighLoad
)

// ByLoad returns a CleanerOptions.Select: all steps under low load, all but the expensive ones under medium load, and
// a gap under high or unknown load. expensive lists the names of the expensive steps.
func ByLoad(load func(context.Context) Load, expensive ...string) func(context.Context, Entry, []Step) []Step {
	return func(ctx context.Context, _ Entry, steps []Step) []Step {
		switch load(ctx) {
		case LowLoad:
			return steps
		case MediumLoad:
			return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return slices.Contains(expensive, s.Name) })
		}
		return nil
	}
}

// chain calls the steps in turn, and returns the request that ends the claim, and the deciding
// step.
func (c *Cleaner[Tx]) chain(ctx context.Context, e Entry) (req seqstore.ResolveRequest, step string) {
	req = seqstore.ResolveRequest{Stream: e.Stream, Seq: e.Seq, Token: e.Token, Outcome: OutcomeGap, Reason: ReasonExpired}
	steps := c.options.Steps
	if c.options.Select != nil {
		err := catchPanic(func() error {
			steps = c.options.Select(ctx, e.Clone(), slices.Clone(steps))
			return nil
		})
		if err != nil {
			req.Outcome, req.Reason = seqstore.OutcomeFailed, reasonOf(fmt.Errorf("select: %w", err))
			return req, "select"
		}
	}
	for _, s := range steps {
		var recovery Recovery
		err := catchPanic(func() (err error) {
			recovery, err = s.Recover(ctx, e.Clone())
			return err
		})
		switch {
		case err != nil:
			req.Outcome, req.Reason = seqstore.OutcomeFailed, reasonOf(fmt.Errorf("%s: %w", s.Name, err))
			return req, s.Name
		case recovery.Outcome == OutcomeRecovered:
			req.Outcome, req.Payload, req.Reason = OutcomeRecovered, recovery.Payload, ""
			return req, s.Name
		case recovery.Outcome == OutcomeGap:
			req.Reason = cmp.Or(recovery.Reason, ReasonExpired)
			return req, s.Name
		}
	}
	return req, "gap"
}

// catchPanic converts a panic, or the end of the goroutine, into an error: one bad operation must not stop the cleaner.
func catchPanic(do func() error) error {
	ended := make(chan error, 1)
	providerkit.Go(do, func(err error) { ended <- panicError(err) })
	return <-ended
}

// panicError converts a *providerkit.PanicError into an error from this package.
func panicError(err error) error {
	if p, is := errors.AsType[*providerkit.PanicError](err); is {
		if p.Value == nil {
			return errors.New("it ended its goroutine")
		}
		return fmt.Errorf("panic: %v", p.Value)
	}
	return err
}

// maxReason bounds the stored text of an error, in characters.
const maxReason = 500

// reasonOf returns an error's text in its stored form.
func reasonOf(err error) string {
	text := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, err.Error()))
	return string(text[:min(len(text), maxReason)])
}
