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

type VerifyOptions struct {
	Options
	Drift, Precision time.Duration
}

func Verify(h *History, o VerifyOptions) ([]Violation, []string) {
	o.Manager = leasing.Options{DriftFloor: o.Drift, DriftFactor: 1e-15}
	return verification{Options: o.Options, lateness: leasing.Lateness{Fixed: o.Precision}}.verify(h)
}

func ReportOf(h *History) *Report { return &Report{history: h} }

func (r *Report) History() *History { return r.history }
