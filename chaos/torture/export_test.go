package torture

import (
	"time"

	"github.com/distributedleasing/leasing"
)

// The types of a history, for tests.
type (
	History   = history
	Operation = operation
	Hold      = hold
	Write     = write
	Fault     = fault
	Stop      = stop
	FreeAt    = freeAt
	Layer     = layer
	Result    = result
	Ending    = ending
)

const (
	LayerClient  = layerClient
	LayerBackend = layerBackend

	ResultDone     = resultDone
	ResultHeld     = resultHeld
	ResultLost     = resultLost
	ResultReleased = resultReleased
	ResultRefused  = resultRefused
	ResultUnknown  = resultUnknown

	EndingGivenUp   = endingGivenUp
	EndingLost      = endingLost
	EndingAbandoned = endingAbandoned
	EndingKilled    = endingKilled
)

const (
	CheckOverlap      Check = "overlap"
	CheckTrust        Check = "trust"
	CheckLinearizable Check = "linearizable"
	CheckRules        Check = "rules"
	CheckTokens       Check = "tokens"
	CheckFence        Check = "fence"
	CheckRenewal      Check = "renewal"
	CheckLoss         Check = "loss"
	CheckRelease      Check = "release"
	CheckCleanup      Check = "cleanup"
	CheckLiveness     Check = "liveness"
	CheckEvents       Check = "events"
	CheckMetadata     Check = "metadata"
	CheckGhost        Check = "ghost"
	CheckRefusal      Check = "refusal"
	CheckAnswer       Check = "answer"
	CheckWord         Check = "word"
	CheckHang         Check = "hang"
	CheckLeak         Check = "leak"
	CheckWaiting      Check = "waiting"
	CheckListing      Check = "listing"
	CheckBreak        Check = "break"
	CheckClose        Check = "close"
	CheckGrowth       Check = "growth"
	CheckGoroutine    Check = "goroutine"
)

type VerifyOptions struct {
	Options
	Drift, Precision time.Duration
	Pushes, Watched  bool
}

func VerifyHistory(h *History, o VerifyOptions) ([]Violation, []string) {
	o.Manager.Tuning.DriftFloor, o.Manager.Tuning.DriftFactor = o.Drift-1, 1e-15 // which is rounded up
	return verification{Options: o.Options, lateness: leasing.Lateness{Fixed: o.Precision, Watched: o.Watched}, pushes: o.Pushes}.verify(h)
}

func ReportOf(h *History) *Report { return &Report{history: h} }

func (r *Report) History() *History { return r.history }

type (
	Wait   = wait
	Sight  = sight
	Notice = notice
	Word   = word
)

// Shrink shrinks a run. The test decides which runs fail.
func Shrink(o Options, fails func(Options) bool) (Options, string) {
	o = shrink(o, fails)
	return o, o.goTest()
}

func Stopwatch(h *History, o VerifyOptions) {
	o.Manager.Tuning.DriftFloor, o.Manager.Tuning.DriftFactor = o.Drift-1, 1e-15 // which is rounded up
	h.stopwatch(&o.Options)
}
