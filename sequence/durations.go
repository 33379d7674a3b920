package sequence

import (
	"cmp"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Durations chooses the duration of leases: twice the mean time that the latest operations of the
// same kind took in this process, times the operation's Size.
type Durations struct {
	// Default is the duration for a kind without history. Default 30 s.
	Default time.Duration
	// Floor and Cap bound the duration. Defaults 5 s and 10 minutes.
	Floor, Cap time.Duration
	// Samples is the number of operations of a kind that are remembered. Default 32.
	Samples int
}

func (d Durations) withDefaults() Durations {
	return Durations{
		Default: cmp.Or(d.Default, 30*time.Second), Floor: cmp.Or(d.Floor, 5*time.Second),
		Cap: cmp.Or(d.Cap, 10*time.Minute), Samples: cmp.Or(d.Samples, 32),
	}
}

func (d Durations) validate() error {
	switch {
	case d.Floor < shortestLease:
		return invalid("Durations.Floor", d.Floor, "at least "+shortestLease.String())
	case d.Cap < d.Floor || d.Cap > seqstore.MaxDuration:
		return invalid("Durations.Cap", d.Cap, "at least Floor, "+d.Floor.String())
	case d.Default < d.Floor || d.Default > d.Cap:
		return invalid("Durations.Default", d.Default, "from Floor to Cap, "+d.Floor.String()+" to "+d.Cap.String())
	case d.Samples < 1:
		return invalid("Durations.Samples", d.Samples, "at least 1")
	}
	return nil
}

// Next returns the duration after the given samples, for an operation of the given size; a size of 0 counts as
// 1. Without samples it returns Default for any size.
func (d Durations) Next(samples []time.Duration, size float64) time.Duration {
	if len(samples) == 0 {
		return d.Default
	}
	var sum float64
	for _, s := range samples {
		sum += float64(s)
	}
	next := 2 * sum / float64(len(samples)) * cmp.Or(size, 1)
	return time.Duration(min(max(next, float64(d.Floor)), float64(d.Cap)))
}

// history stores the durations of operations, per unit of size. Its methods lock mu.
type history struct {
	mu    sync.Mutex
	kinds map[string][]time.Duration
}

// maxKinds is the maximum number of kinds that are remembered; all other kinds get the default.
const maxKinds = 1000

func (h *history) add(kind string, took time.Duration, size float64, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kinds == nil {
		h.kinds = map[string][]time.Duration{}
	}
	samples, known := h.kinds[kind]
	if !known && len(h.kinds) >= maxKinds {
		return
	}
	samples = append(samples, time.Duration(float64(took)/cmp.Or(size, 1)))
	h.kinds[kind] = samples[max(0, len(samples)-most):]
}

func (h *history) next(d Durations, kind string, size float64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return d.Next(h.kinds[kind], size)
}
