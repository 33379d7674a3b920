package torture

import (
	"fmt"
	"runtime"
)

// checkMemory finds leases that a manager still keeps after their end. It is asked before
// the manager is closed, of one worker: a garbage collection costs all of them.
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

// perWorker is how many goroutines a worker may have, whatever it does: those of its
// manager, of requests, clean-ups and observers, and of faults.
const perWorker = 100

// checkGoroutines finds that there are more than the work can need.
func (r *run) checkGoroutines() {
	_, n := goroutines(r.label)
	if most := perWorker * (r.options.Workers + 1); n > most {
		r.recording.enter(Violation{Check: checkGrowth, At: r.now(), Text: fmt.Sprintf("there are %d goroutines, and no more than %d are needed", n, most)})
	}
}
