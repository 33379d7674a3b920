package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// awaitFree takes each name once more, with a client that nothing disturbs. What
// crashed workers have left behind runs out meanwhile.
func (r *run) awaitFree(ctx context.Context) (err error) {
	r.progress("waiting for names")
	provider, err := r.options.open(ctx)
	if err != nil {
		return fmt.Errorf("open a client for the check of leaks: %w", err)
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	by := r.closed + r.options.TTL + r.options.margin(r.options.TTL) + r.caps.Lateness.After(r.options.TTL) + r.options.Patience
	left, ids, refusals := r.names, map[string]string{}, map[string]error{}
	for _, name := range left {
		ids[name] = abstractions.NewID()
	}
	for len(left) > 0 && r.now() < by && ctx.Err() == nil {
		var held []string
		for _, name := range left {
			if refusals[name] = r.take(ctx, provider, name, ids[name]); refusals[name] == nil {
				r.free = append(r.free, freeAt{Name: name, At: r.now(), By: by})
			} else {
				held = append(held, name)
			}
		}
		left = held
		pause(ctx, 20*time.Millisecond)
	}
	for _, name := range left {
		if refusal := refusals[name]; refusal != nil && !errors.Is(refusal, leasing.ErrHeld) {
			return fmt.Errorf("whether %q became free can't be told: %w", name, refusal)
		}
		r.free = append(r.free, freeAt{Name: name, By: by})
	}
	return context.Cause(ctx)
}

// take acquires a name and releases it again. The error says why it can't.
func (r *run) take(ctx context.Context, provider leasing.Provider, name, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Manager.RequestTimeout+r.options.Patience)
	defer cancel()
	_, err := provider.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: "torture", TTL: r.options.TTL})
	if err == nil {
		_ = provider.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id})
	}
	return err
}

// pause waits for a time or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// goroutineLabel marks the goroutines of a run, and those they start.
const goroutineLabel = "leasing.torture"

// labelled runs fn so that every goroutine which it starts, and those start, can be
// told from others.
func labelled(ctx context.Context, label string, fn func(context.Context) error) (err error) {
	pprof.Do(ctx, pprof.Labels(goroutineLabel, label), func(ctx context.Context) { err = fn(ctx) })
	return err
}

// leftGoroutines waits for the run's goroutines to end, and enters those that don't.
func leftGoroutines(label string, patience time.Duration, clock *clock, journal journal) {
	left, _ := goroutines(label)
	for wait := time.Millisecond; len(left) > 0 && wait <= 2*patience; wait *= 2 {
		<-time.After(wait)
		left, _ = goroutines(label)
	}
	for _, stack := range left {
		journal.enter(Violation{Check: checkGoroutine, At: clock.now(), Text: "left behind: " + stack})
	}
}

// goroutines returns the stacks of those with the label, and how many there are: groups of
// equal ones, as the profile in its text form lists them.
func goroutines(label string) (stacks []string, n int) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return nil, 0
	}
	mark := fmt.Sprintf("%q:%q", goroutineLabel, label)
	_, groups, _ := strings.Cut(profile.String(), "\n") // behind the total
	for _, group := range strings.Split(groups, "\n\n") {
		if strings.Contains(group, mark) {
			count, _, _ := strings.Cut(group, " ")
			number, _ := strconv.Atoi(count)
			n += number
			stacks = append(stacks, strings.ReplaceAll(strings.Join(frame.FindAllString(group, 6), " < "), "+0x", ""))
		}
	}
	return stacks, n
}

// frame is a function on a stack: "pkg.fn+0x2c".
var frame = regexp.MustCompile(`[^\s+]+\+0x`)
