package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing/integration/scenarios/runner"
	"github.com/distributedleasing/leasing/sequence"
)

// The troubles.
const (
	killedEmpty   = "killed, nothing saved"
	killedHalf    = "killed, half of its work saved"
	killedDone    = "killed, its work saved"
	pausedToGap   = "paused, back at a gap"
	pausedToSeal  = "paused, back at a sealed gap"
	pausedToOther = "paused, its work saved"
	cutOff        = "cut off, back with a journal"
)

// troubles lists the troubles of the workers w1 to w6, in order. Each comes after a report of the given kind and phase.
var troubles = []struct{ what, kind, phase string }{
	{killedEmpty, "has done its work", ""},
	{killedHalf, "has saved", string(sequence.Partial)},
	{killedDone, "has saved", string(sequence.Completed)},
	{pausedToGap, "has done its work", ""},
	{pausedToSeal, "has done its work", ""},
	{pausedToOther, "has saved", string(sequence.Completed)},
}

// trouble kills or pauses a worker that has reached the point of its trouble. It returns false for any other report.
func (s *sequenceShow) trouble(r runner.Report) bool {
	i := slices.Index([]string{"w1", "w2", "w3", "w4", "w5", "w6"}, r.Worker)
	if i < 0 || r.Kind != troubles[i].kind || r.Phase != troubles[i].phase {
		return false
	}
	if s.worked[r.Worker]++; s.worked[r.Worker] != troubleAt {
		return false
	}
	what := troubles[i].what
	s.numbers[what] = r.Number
	if strings.HasPrefix(what, "killed") {
		s.Announce("kill -KILL %s, with number %d (%s)", r.Worker, r.Number, what)
		s.Kill(r.Worker)
	} else {
		s.Announce("kill -STOP %s, with number %d (%s)", r.Worker, r.Number, what)
		s.Pause(r.Worker)
	}
	return true
}

func (s *sequenceShow) react(ctx context.Context, r runner.Report) error {
	switch r.Kind {
	case "has its commit refused":
		s.refused[r.Number]++
		return nil
	case "was late", "has its result all the same", "has settled a result of its journal":
		s.done[r.Number] = r.Settled != string(sequence.SettledJournaled)
	case closed:
		s.seen = r.Number
		for _, trouble := range []string{pausedToGap, pausedToOther} {
			if r.Number == s.numbers[trouble] {
				s.wake(trouble)
			}
		}
	case cutOff:
		s.numbers[cutOff] = r.Number
	case away:
		s.cutOffEnded = true
	}
	if s.cutOffEnded && !s.cameBack && s.seen >= s.numbers[cutOff] {
		s.cameBack = true
		s.Announce("%s comes back with its journal", cutOffWriter)
		if err := s.start(ctx, cutOffWriter); err != nil {
			return err
		}
	}
	return s.seal(ctx)
}

// wake resumes the worker that was paused for a trouble.
func (s *sequenceShow) wake(trouble string) {
	for i := range troubles {
		if troubles[i].what == trouble {
			name := fmt.Sprintf("w%d", i+1)
			s.Announce("kill -CONT %s, which still wants to commit", name)
			s.Resume(name)
			s.Continue(name)
		}
	}
}

// seal seals the closed numbers before the first gap that a late result can still fill.
func (s *sequenceShow) seal(ctx context.Context) (err error) {
	upTo := s.seen
	for _, trouble := range []string{pausedToGap, cutOff} {
		if seq := s.numbers[trouble]; seq != 0 && !s.done[seq] {
			upTo = min(upTo, seq-1)
		}
	}
	before := s.sealed
	if upTo <= before {
		return nil
	}
	s.sealed, err = s.store.Seal(ctx, stream, upTo)
	if seq := s.numbers[pausedToSeal]; err == nil && before < seq && seq <= s.sealed {
		s.wake(pausedToSeal)
	}
	return err
}
