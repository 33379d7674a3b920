package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/samples/internal/runner"
)

const operator, reason = "ada", "it sits on its files"

// troubles are the trouble of each agent, and the kind of the history's entry about the end of its leases. For an
// agent that is killed the entry is an expiry, or is missing, because no process was left to report the end.
var troubles = map[string]struct {
	what string
	end  abstractions.HistoryKind
}{
	"a1": {"crosses", abstractions.HistoryReleased}, "a2": {"crosses", abstractions.HistoryReleased},
	"a3": {"is killed", abstractions.HistoryExpired}, "a4": {"dawdles", abstractions.HistoryBroken},
}

// show is a run of the sample.
type show struct {
	*runner.Runner
	root     string
	reported []string         // edits
	leases   []leasing.Record // that trouble befell
	crossing []string         // agents
	told     int              // agents, of the deadlock
}

func control(ctx context.Context, r *runner.Runner, root string) error {
	audit, err := openAudit(ctx, r.Place, r.Data, r.Manager)
	if err != nil {
		return err
	}
	s := &show{Runner: r, root: root}
	return errors.Join(s.direct(ctx), audit.finish(ctx, r.Manager), s.check(ctx, audit), audit.Close())
}

// direct starts the agents, and brings trouble on them, until all are gone.
func (s *show) direct(ctx context.Context) error {
	s.Announce("six processes make %d edits each, under leases of %v on %s", edits, s.TTL, s.Manager.Capabilities().Provider)
	for i := range 6 {
		if err := s.Start(ctx, fmt.Sprintf("a%d", i+1), s.root); err != nil {
			return err
		}
	}
	for s.Running() > 0 {
		r, err := s.Next(ctx)
		switch {
		case err != nil:
			return err
		case r.Kind == did:
			s.reported = append(s.reported, r.Text)
			continue
		case r.Kind == told:
			s.told++
		}
		s.Line(r)
		if r.Kind == troubled {
			if err := s.meet(ctx, r.Worker); err != nil {
				return err
			}
		}
	}
	return nil
}

// meet brings trouble on an agent that is ready for its trouble.
func (s *show) meet(ctx context.Context, agent string) error {
	held, err := leasing.HeldBy(ctx, s.Manager, agent, "")
	s.leases = append(s.leases, held...)
	switch troubles[agent].what {
	case "is killed":
		s.Announce("kill -KILL %s; a7 does its work", agent)
		s.Kill(agent)
		return errors.Join(err, s.Start(ctx, "a7", s.root))
	case "dawdles":
		s.Announce("%s forces %s out of %d files: %s", operator, agent, len(held), reason)
		_, broken := leasing.ForceRelease(ctx, s.Manager, held, leasing.BreakOptions{Actor: operator, Reason: reason})
		return errors.Join(err, broken)
	}
	if s.crossing = append(s.crossing, agent); len(s.crossing) == 2 {
		for _, agent := range s.crossing {
			s.Continue(agent)
		}
	}
	return err
}

// check looks whether the promises held.
func (s *show) check(ctx context.Context, audit *audit) error {
	rows := [][]any{{"file", "token", "agent", "it", "the lease was", "by", "why", "next", "token"}}
	for _, lease := range s.leases {
		page, err := audit.History(ctx, abstractions.HistoryRequest{Name: lease.Name, Limit: 1000})
		if err != nil {
			return err
		}
		var began, ended, next abstractions.HistoryEntry
		for _, e := range page.Entries {
			acquired := e.Kind == abstractions.HistoryAcquired
			switch {
			case e.Token == lease.Token && acquired:
				began = e
			case e.Token == lease.Token && (ended.Kind == "" || e.Kind == abstractions.HistoryBroken):
				ended = e
			case e.Token > lease.Token && acquired && next.Kind == "":
				next = e
			}
		}
		trouble := troubles[lease.Owner]
		unknown := ended.Kind == "" && trouble.end == abstractions.HistoryExpired
		if began.Owner != lease.Owner || next.Kind == "" || ended.Kind != trouble.end && !unknown {
			return fmt.Errorf("%s was %s's with token %d, and its history is %v", lease.Name, lease.Owner, lease.Token, page.Entries)
		}
		_, file, _ := strings.Cut(lease.Name, ":/")
		rows = append(rows, []any{file, lease.Token, lease.Owner, trouble.what, ended.Kind, ended.Actor, ended.Reason, next.Owner, next.Token})
	}
	if len(s.leases) != 6 || s.told != 1 {
		return fmt.Errorf("trouble befell %d leases, and not 6, or not one agent of two gave way: %d", len(s.leases), s.told)
	}
	lines, err := checkFiles(s.root, s.reported)
	if err != nil {
		return err
	}
	s.Table(rows...)
	s.OK("no edit is torn or lost: %d files have %d lines of %d edits", len(files), lines, len(s.reported))
	s.OK("the two that waited for each other were told, and one of them gave way")
	s.OK("the history tells of each lease that trouble befell, and of the greater token after it")
	return nil
}
