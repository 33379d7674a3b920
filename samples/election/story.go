//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/distributedleasing/leasing"
)

// patience bounds each wait: far more than anything takes here.
const patience = 15 * time.Second

// story directs the workers and checks what they do.
type story struct {
	cast    *cast
	screen  *screen
	referee *referee
	watch   leasing.Manager // looks on; takes no lease
	book    *ledger
	close   func()

	entered   int // workers started so far
	gone      int // of them
	takeOvers []takeOver
	wakeUp    string // how the paused leader fared
}

func newStory(ctx context.Context, p place, out io.Writer) (*story, error) {
	provider, err := p.provider(ctx, false)
	if err != nil {
		return nil, err
	}
	watch, err := leasing.NewManager(provider, leasing.Options{Owner: "audience"})
	if err != nil {
		return nil, errors.Join(err, provider.Close())
	}
	book, err := openLedger(p)
	if err != nil {
		return nil, errors.Join(err, provider.Close())
	}
	return &story{
		cast: newCast(p), screen: &screen{out: out, start: hostTime()}, referee: newReferee(), watch: watch, book: book,
		close: func() {
			_ = watch.Close(context.WithoutCancel(ctx)) // it has no lease to wait for
			_ = provider.Close()
			book.close()
		},
	}, nil
}

// end leaves no process behind.
func (s *story) end() {
	s.cast.end()
	s.close()
}

func (s *story) play(ctx context.Context) error {
	s.screen.act("three processes compete for the lease %q (TTL %v, on %s)", leaseName, ttl, s.cast.place.backend())
	for range 3 {
		if err := s.enter(); err != nil {
			return err
		}
	}
	leader, err := s.awaitLeader(ctx, report{})
	if err != nil {
		return err
	}
	s.takeOvers = append(s.takeOvers, takeOver{leader: leader})
	for _, scene := range []func(context.Context, report) (report, error){s.kill, s.pause, s.dismiss} {
		if leader, err = scene(ctx, leader); err != nil {
			return err
		}
	}
	if err := s.work(ctx, leader); err != nil {
		return err
	}
	if err := s.goHome(ctx); err != nil {
		return err
	}
	return s.judge(ctx)
}

// enter starts one more worker.
func (s *story) enter() error {
	s.entered++
	return s.cast.start(fmt.Sprintf("w%d", s.entered))
}

// goHome stops everybody politely.
func (s *story) goHome(ctx context.Context) error {
	s.screen.act("kill -TERM everybody: the demo is over")
	for name := range s.cast.workers {
		if _, err := s.cast.signal(name, syscall.SIGTERM); err != nil {
			return err
		}
	}
	for s.gone < s.entered {
		if _, err := s.await(ctx, "everybody to leave", func(r report) bool { return r.Kind == exited }); err != nil {
			return err
		}
	}
	return nil
}

// judge checks the whole story.
func (s *story) judge(ctx context.Context) error {
	s.screen.table(s.takeOvers)
	for _, t := range s.takeOvers[1:] {
		if err := t.check(); err != nil {
			return err
		}
	}
	closest, err := s.referee.trustApart()
	if err != nil {
		return err
	}
	s.screen.passed("no two leaders trusted their lease at the same time; at least %v lay between", closest.Round(time.Millisecond))
	s.screen.passed("%s", s.wakeUp)
	rows, err := s.book.all(ctx)
	if err != nil {
		return err
	}
	if err := s.referee.ledgerHolds(rows); err != nil {
		return err
	}
	s.screen.passed("its late write was refused; the ledger's %d rows bear tokens that never fall", len(rows))
	return nil
}

func (s *story) awaitLeader(ctx context.Context, after report) (report, error) {
	return s.await(ctx, "a leader", func(r report) bool { return r.Kind == elected && r.Token > after.Token })
}

// awaitWrite waits until the leader has written a row, with at least so much
// trust left.
func (s *story) awaitWrite(ctx context.Context, leader report, trust time.Duration) (report, error) {
	return s.await(ctx, "a write of "+leader.Worker, func(r report) bool {
		return r.Kind == wrote && r.Token == leader.Token && r.Trust >= trust
	})
}

// await shows what the workers report until what is awaited is reported, and
// what the lease is doing while they are silent.
func (s *story) await(ctx context.Context, what string, awaited func(report) bool) (report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %v for %s", patience, what))
	defer cancel()
	quiet := time.NewTicker(ttl / 4)
	defer quiet.Stop()
	for {
		select {
		case <-quiet.C:
			s.screen.wait(s.watch.Inspect(ctx, leaseName))
		case r := <-s.cast.reports:
			quiet.Reset(ttl / 4)
			s.screen.show(r)
			s.referee.see(r)
			if r.Kind == exited {
				s.gone++
				if err := s.cast.exit(r); err != nil {
					return r, err
				}
			}
			if awaited(r) {
				return r, nil
			}
		case <-ctx.Done():
			return report{}, context.Cause(ctx)
		}
	}
}
