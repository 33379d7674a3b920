package torture

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
)

// job is what a run tells a worker process first.
type job struct {
	Index    int            `json:"index"`
	Epoch    time.Duration  `json:"epoch"` // of the run's clock
	Run      uint64         `json:"run"`
	Names    []string       `json:"names"`
	Seed     uint64         `json:"seed"`
	Plan     chaos.Plan     `json:"plan"`
	TTL      time.Duration  `json:"ttl"`
	Patience time.Duration  `json:"patience"`
	Manager  managerOptions `json:"manager"`
}

// managerOptions are those of leasing.Options that are numbers.
type managerOptions struct {
	RenewFraction    float64
	RenewCadence     time.Duration
	DriftFactor      float64
	DriftFloor       time.Duration
	RequestTimeout   time.Duration
	RenewConcurrency int
	RenewBatch       int
	MinPoll, MaxPoll time.Duration
}

func numbers(o leasing.Options) managerOptions {
	return managerOptions{
		o.RenewFraction, o.RenewCadence, o.DriftFactor, o.DriftFloor, o.RequestTimeout,
		o.RenewConcurrency, o.RenewBatch, o.MinPoll, o.MaxPoll,
	}
}

func (m managerOptions) options(ttl time.Duration) leasing.Options {
	return leasing.Options{
		TTL: ttl, RenewFraction: m.RenewFraction, RenewCadence: m.RenewCadence,
		DriftFactor: m.DriftFactor, DriftFloor: m.DriftFloor, RequestTimeout: m.RequestTimeout,
		RenewConcurrency: m.RenewConcurrency, RenewBatch: m.RenewBatch, MinPoll: m.MinPoll, MaxPoll: m.MaxPoll,
	}
}

// order is a line from the run to a worker process.
type order struct {
	Job   *job      `json:"job,omitempty"`
	Calm  bool      `json:"calm,omitempty"` // end the faults
	Stop  bool      `json:"stop,omitempty"` // end the work
	Wrote *response `json:"wrote,omitempty"`
}

// response is the resource's to a write.
type response struct {
	Request  int  `json:"request"`
	Place    int  `json:"place"`
	Accepted bool `json:"accepted"`
	Failed   bool `json:"failed,omitempty"`
}

// notice is a line from a worker process to the run.
type notice struct {
	Ready bool     `json:"ready,omitempty"` // the first: it is a worker
	Entry *entry   `json:"entry,omitempty"`
	Write *request `json:"write,omitempty"`
	Fill  *filling `json:"fill,omitempty"`
	Error string   `json:"error,omitempty"`
	// Violation is one that only the process can see.
	Violation *Violation `json:"violation,omitempty"`
}

type request struct {
	Request int    `json:"request"`
	Name    string `json:"name"`
	Token   int64  `json:"token"`
}

type filling struct {
	Place int   `json:"place"`
	Write Write `json:"write"`
}

// lines writes one line of JSON at a time.
type lines struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func newLines(w io.Writer) *lines { return &lines{encoder: json.NewEncoder(w)} }

// say drops what nobody reads any more: the other process is gone.
func (l *lines) say(what any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.encoder.Encode(what)
}
