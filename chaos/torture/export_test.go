package torture

import (
	"time"

	"github.com/distributedleasing/leasing"
)

// What the tests of histories make.
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
	CheckOverlap      = checkOverlap
	CheckTrust        = checkTrust
	CheckLinearizable = checkLinearizable
	CheckRules        = checkRules
	CheckTokens       = checkTokens
	CheckFence        = checkFence
	CheckRenewal      = checkRenewal
	CheckLoss         = checkLoss
	CheckRelease      = checkRelease
	CheckCleanup      = checkCleanup
	CheckLiveness     = checkLiveness
	CheckEvents       = checkEvents
	CheckMetadata     = checkMetadata
	CheckGhost        = checkGhost
	CheckRefusal      = checkRefusal
	CheckAnswer       = checkAnswer
	CheckHang         = checkHang
	CheckLeak         = checkLeak
	CheckGrowth       = checkGrowth
	CheckGoroutine    = checkGoroutine
)

type VerifyOptions struct {
	Options
	Drift, Precision time.Duration
	Pushes           bool
}

func VerifyHistory(h *History, o VerifyOptions) ([]Violation, []string) {
	o.Manager.DriftFloor, o.Manager.DriftFactor = o.Drift-1, 1e-15 // which is rounded up
	return verification{Options: o.Options, lateness: leasing.Lateness{Fixed: o.Precision}, pushes: o.Pushes}.verify(h)
}

func ReportOf(h *History) *Report { return &Report{history: h} }

func (r *Report) History() *History { return r.history }

type (
	Wait   = wait
	Sight  = sight
	Notice = notice
)

// Shrink is for runs that fail as a test says.
func Shrink(o Options, fails func(Options) bool) (Options, string) {
	o = shrink(o, fails)
	return o, o.goTest()
}

func Stopwatch(h *History, o VerifyOptions) {
	o.Manager.DriftFloor, o.Manager.DriftFactor = o.Drift-1, 1e-15 // which is rounded up
	h.stopwatch(&o.Options)
}
