//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// report is what a worker tells the parent, one line of JSON each.
type report struct {
	Kind   kind
	Worker string
	At     time.Duration // on the host's clock: see hostTime
	Token  int64         `json:",omitempty"`
	Trust  time.Duration `json:",omitempty"` // how long the lease can still be trusted
	Row    int64         `json:",omitempty"`
	Text   string        `json:",omitempty"`
}

// trustedUntil is when the trust that was reported ends.
func (r report) trustedUntil() time.Duration { return r.At + r.Trust }

type kind string

const (
	standing kind = "standing" // the worker competes for the lease
	elected  kind = "elected"
	wrote    kind = "wrote"   // a row of the ledger
	lost     kind = "lost"    // the lease's context has ended, without a release
	refused  kind = "refused" // the ledger has refused a write: its token was stale
	late     kind = "late"    // the ledger has accepted a write after the loss
	failed   kind = "failed"  // such a write has failed for another reason
	stopping kind = "stopping"
	resigned kind = "resigned" // the lease is released
	exited   kind = "exited"   // the process is gone; from the parent itself
)

// hostTime is a clock that all processes of the machine share and that nobody
// sets: the time since it was started.
func hostTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // fails only for unknown clocks
	return time.Duration(now.Nano())
}
