package torture

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// checkMemory finds leases that a manager still keeps after their end. It runs before the
// manager is closed, for one worker only, because a garbage collection slows all workers.
func (w *worker) checkMemory() {
	if w.index != 0 || len(w.past) < 30 {
		return
	}
	runtime.GC()
	kept := 0
	for _, h := range w.past {
		if h.Value() != nil {
			kept++
		}
	}
	if kept > 10+len(w.past)/4 {
		w.journal.enter(Violation{Check: checkGrowth, At: w.clock.now(), Text: fmt.Sprintf("a manager keeps %d of the %d leases that it has had", kept, len(w.past))})
	}
}

// checkManager finds goroutines that a manager keeps although it has no lease any more, and all
// claims that it had to clean up have run out. It runs before the manager is closed, in virtual time,
// for every second worker. The other managers are closed while clean-ups are still pending.
func (w *worker) checkManager() {
	if w.index%2 == 0 || len(w.past) < 30 || !inBubble() {
		return
	}
	pause(context.Background(), settling(w.options))
	most := 4 // its own, and this one
	if !w.lender.Capabilities().HeedsContext {
		most += 20 // some stay for the next request
	}
	if stacks, n := goroutines(managerLabel, w.label()); n > most {
		w.journal.enter(Violation{Check: checkGrowth, At: w.clock.now(), Text: fmt.Sprintf("a manager without a lease has %d goroutines: %s", n, strings.Join(stacks, "; "))})
	}
}

// settling returns the longest time that clean-ups may take.
func settling(o Options) time.Duration { return 2 * (o.TTL + o.Manager.Tuning.RequestTimeout) }

// label returns the label of the worker's goroutines.
func (w *worker) label() string { return fmt.Sprintf("%p", w) }

// perWorker is the highest number of goroutines of a worker, in any state: for its manager,
// requests, clean-ups, observers and faults.
const perWorker = 100

// checkGoroutines finds more goroutines than the work can need.
func (r *run) checkGoroutines() {
	_, n := goroutines(goroutineLabel, r.label)
	if most := perWorker * (r.options.Workers + 1); n > most {
		r.recording.enter(Violation{Check: checkGrowth, At: r.now(), Text: fmt.Sprintf("there are %d goroutines, and no more than %d are needed", n, most)})
	}
}
