package run

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// The labels mark the goroutines of a run or of one manager, and all goroutines that these
// goroutines start.
const (
	goroutineLabel = "leasing.torture"
	managerLabel   = "leasing.torture.manager"
)

// runLabelled runs fn with a label on all goroutines that fn starts, directly or indirectly.
func runLabelled(ctx context.Context, key, label string, fn func(context.Context) error) (err error) {
	pprof.Do(ctx, pprof.Labels(key, label), func(ctx context.Context) { err = fn(ctx) })
	return err
}

// checkLeftGoroutines waits for the run's goroutines to end, and records a violation for each goroutine that is left.
func checkLeftGoroutines(label string, patience time.Duration, clock *clock, journal history.Journal) {
	left, _ := goroutines(goroutineLabel, label)
	for wait := time.Millisecond; len(left) > 0 && wait <= 2*patience; wait *= 2 {
		<-time.After(wait)
		left, _ = goroutines(goroutineLabel, label)
	}
	for _, stack := range left {
		journal.Enter(history.Violation{Check: history.CheckGoroutine, At: clock.now(), Text: "left behind: " + stack})
	}
}

// goroutines returns the stacks and the number of the goroutines with the label. Goroutines with
// equal stacks form one group, as in the text form of the profile.
func goroutines(key, label string) (stacks []string, n int) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return nil, 0
	}
	mark := fmt.Sprintf("%q:%q", key, label)
	_, groups, _ := strings.Cut(profile.String(), "\n") // after the total
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

// frame matches a function on a stack, such as "pkg.fn+0x2c".
var frame = regexp.MustCompile(`[^\s+]+\+0x`)
