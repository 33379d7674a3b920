//go:build unix

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

const (
	// fresh is how much trust a leader has left when it is to be stopped: so
	// much that no renewal is due.
	fresh = ttl * 6 / 10
	// stint is how many rows a leader writes before something happens to it:
	// enough to see its lease renewed.
	stint = 6
)

// kill kills the leader, which has no chance to release anything.
func (s *story) kill(ctx context.Context, leader report) (report, error) {
	if err := s.work(ctx, leader); err != nil {
		return leader, err
	}
	s.screen.act("kill -KILL %s", leader.Worker)
	at, err := s.cast.signal(leader.Worker, syscall.SIGKILL)
	if err != nil {
		return leader, err
	}
	s.referee.killed(leader.Token, at)
	free, err := s.runsOut(ctx)
	if err != nil {
		return leader, err
	}
	next, err := s.awaitLeader(ctx, leader)
	if err != nil {
		return leader, err
	}
	s.takeOvers = append(s.takeOvers, takeOver{leader: next, before: leader.Worker + " killed", took: next.At - at, beyond: next.At - free})
	return next, s.enter() // so that there are three again
}

// pause stops the leader for longer than its lease lasts and wakes it up.
func (s *story) pause(ctx context.Context, leader report) (report, error) {
	if err := s.work(ctx, leader); err != nil {
		return leader, err
	}
	at, err := s.stopAtRest(ctx, leader)
	if err != nil {
		return leader, err
	}
	free, err := s.runsOut(ctx)
	if err != nil {
		return leader, err
	}
	next, err := s.awaitLeader(ctx, leader)
	if err != nil {
		return leader, err
	}
	s.takeOvers = append(s.takeOvers, takeOver{leader: next, before: leader.Worker + " paused", took: next.At - at, beyond: next.At - free})
	// By now the new leader has shown its token to the ledger.
	if _, err := s.await(ctx, "the pause to outlast the TTL", func(r report) bool {
		return r.Kind == wrote && r.Token == next.Token && r.At > at+ttl
	}); err != nil {
		return leader, err
	}
	s.screen.act("kill -CONT %s: it wakes up and believes that no time has passed", leader.Worker)
	woken, err := s.cast.signal(leader.Worker, syscall.SIGCONT)
	if err != nil {
		return leader, err
	}
	over, err := s.await(ctx, leader.Worker+" to notice the loss", func(r report) bool {
		return r.Kind == lost && r.Token == leader.Token
	})
	if err != nil {
		return leader, err
	}
	s.wakeUp = fmt.Sprintf("%s knew %v after it woke up: %s", leader.Worker, (over.At - woken).Round(10*time.Microsecond), over.Text)
	return next, s.awaitRefusal(ctx, leader)
}

// awaitRefusal waits for the outcome of the late write of a leader that was.
func (s *story) awaitRefusal(ctx context.Context, leader report) error {
	r, err := s.await(ctx, "the late write of "+leader.Worker, func(r report) bool {
		return r.Token == leader.Token && (r.Kind == refused || r.Kind == late || r.Kind == failed)
	})
	if err == nil && r.Kind != refused {
		err = fmt.Errorf("the late write of %s was not refused: %s %s", leader.Worker, r.Kind, r.Text)
	}
	return err
}

// stopAtRest stops the leader between two writes. Stopped in the middle of one
// it would keep its locks in the database, on SQLite the whole file, and nobody
// could take over before it wakes up: no lease helps against that.
func (s *story) stopAtRest(ctx context.Context, leader report) (at time.Duration, err error) {
	for range 5 {
		if _, err := s.awaitWrite(ctx, leader, fresh); err != nil {
			return 0, err
		}
		s.screen.act("kill -STOP %s", leader.Worker)
		if at, err = s.cast.signal(leader.Worker, syscall.SIGSTOP); err != nil {
			return 0, err
		}
		probe, cancel := context.WithTimeout(ctx, ttl/3)
		err = s.book.idle(probe)
		cancel()
		if err == nil {
			return at, nil
		}
		s.screen.act("kill -CONT %s: it was in the middle of a write", leader.Worker)
		if _, err := s.cast.signal(leader.Worker, syscall.SIGCONT); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%s was never caught between two writes: %w", leader.Worker, err)
}

// dismiss asks the leader to stop.
func (s *story) dismiss(ctx context.Context, leader report) (report, error) {
	if err := s.work(ctx, leader); err != nil {
		return leader, err
	}
	free, err := s.runsOut(ctx)
	if err != nil {
		return leader, err
	}
	s.screen.act("kill -TERM %s", leader.Worker)
	at, err := s.cast.signal(leader.Worker, syscall.SIGTERM)
	if err != nil {
		return leader, err
	}
	next, err := s.awaitLeader(ctx, leader)
	if err != nil {
		return leader, err
	}
	s.takeOvers = append(s.takeOvers, takeOver{leader: next, before: leader.Worker + " stopped", took: next.At - at, beyond: next.At - free, released: true})
	return next, nil
}

// work waits until the leader has written some rows and its lease is fresh.
func (s *story) work(ctx context.Context, leader report) error {
	for range stint {
		if _, err := s.awaitWrite(ctx, leader, 0); err != nil {
			return err
		}
	}
	_, err := s.awaitWrite(ctx, leader, fresh)
	return err
}

// runsOut returns when the present lease will run out unless it is renewed.
func (s *story) runsOut(ctx context.Context) (time.Duration, error) {
	now := hostTime()
	record, err := s.watch.Inspect(ctx, leaseName)
	left, _ := record.Remaining()
	return now + left, err
}
