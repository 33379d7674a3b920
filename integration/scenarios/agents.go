package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/integration/scenarios/runner"
	"github.com/distributedleasing/leasing/recipes/filelock"
)

// agents are six processes that edit overlapping sets of files of one tree. Some spell the paths differently, and one leases
// folders. Four of the six run into trouble:
//
//   - two wait for each other, the deadlock is reported, and one gives way;
//   - one is killed in the middle of an edit, and a seventh agent does its work;
//   - one dawdles over its files, and an operator forces it out.
//
// Look at the table at the end: it shows the history of the leases of the agents in trouble. The history is written by the
// provider on SQLite and PostgreSQL, and elsewhere by package history.
var agents = runner.Scenario{
	Name: "agents", About: "six processes edit one tree: two deadlock, one is killed, one is forced out (make agents)", Sample: "agents",
	TTL: 2 * time.Second, // short, so that the leases of a killed agent end soon
}

const operator, reason = "ada", "it sits on its files"

// edits is the number of edits of each agent.
const edits = 6

// The files of agents in trouble. No other agent wants both crossed files, and their names sort last, so another agent that holds
// one of the two does not wait for a further file.
var crossed, dying, dawdled = files[4:], files[0] + "," + files[2], files[1] + "," + files[3]

// inTrouble maps an agent to its trouble, and to the kind of the history entry about the end of its leases. For the agent that is
// killed, this entry is an expiry, or is missing because no process was left to report the end.
var inTrouble = map[string]struct {
	what string
	end  abstractions.HistoryKind
}{
	"a1": {"crosses", abstractions.HistoryReleased}, "a2": {"crosses", abstractions.HistoryReleased},
	"a3": {"is killed", abstractions.HistoryExpired}, "a4": {"dawdles", abstractions.HistoryBroken},
}

// agentShow is one run of the scenario.
type agentShow struct {
	*runner.Runner
	root      string
	history   string           // the file of the history, if the backend keeps no history
	reported  []runner.Report  // edits
	leases    []leasing.Record // that trouble befell
	crossing  []string         // agents
	dawdler   bool             // the agent that dawdles
	discarded int              // edits that this agent threw away
	gaveWay   int              // agents that gave way to end the deadlock
}

// runAgents runs the scenario in a tree that it makes. Without a URL the leases are in the tree's own SQLite file.
func runAgents(ctx context.Context, folder, url string, out io.Writer) (err error) {
	temp, err := os.MkdirTemp("", "leasing-tree-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	root := filepath.Join(temp, "tree")
	if err := makeTree(root); err != nil {
		return err
	}
	if url == "" || url == "sqlite" {
		state, err := filelock.StateFolder(root)
		if err != nil {
			return err
		}
		url = "sqlite://" + state + "/leases.db"
	}
	here := agents
	here.Control = func(ctx context.Context, r *runner.Runner) error {
		audit, err := openAudit(ctx, r.Place.Leases, filepath.Join(temp, "history.db"), r.Manager)
		if err != nil {
			return err
		}
		s := &agentShow{Runner: r, root: root, history: audit.file}
		return errors.Join(s.direct(ctx), audit.finish(ctx, r.Manager), s.check(ctx, audit), audit.Close())
	}
	return runner.Run(ctx, folder, here, url, out)
}

// editPaths returns one or two random paths for an edit.
func editPaths() string {
	paths := []string{files[rand.IntN(4)], link + "/" + filepath.Base(crossed[rand.IntN(2)])}
	return strings.Join(paths[:1+rand.IntN(2)], ",")
}

// tasks returns an agent's edits. a6 edits folders.
func tasks(agent string) []string {
	all := make([]string, edits)
	for i := range all {
		if all[i] = editPaths(); agent == "a6" {
			first, others, _ := strings.Cut(all[i], ",")
			all[i] = strings.TrimSuffix(filepath.Dir(first)+","+others, ",")
		}
	}
	switch agent {
	case "a1":
		all[0] = crossed[0] + "+" + crossed[1]
	case "a2":
		all[0] = crossed[1] + "+" + crossed[0]
	case "a3":
		all[1] = dying
	case "a4":
		all[1] = dawdled
	case "a7":
		all = []string{dying}
	}
	return all
}

// start starts an agent.
func (s *agentShow) start(ctx context.Context, agent string) error {
	flags := []string{"-name", "tree-" + s.Place.Scope, "-tree", s.root, "-history", s.history}
	return s.Start(ctx, agent, append(flags, tasks(agent)...)...)
}

// direct starts the agents, causes the trouble, and returns when all agents have ended.
func (s *agentShow) direct(ctx context.Context) error {
	s.Announce("six processes make %d edits each, under leases of %v on %s", edits, s.TTL, s.Manager.Capabilities().Provider)
	for i := range 6 {
		if err := s.start(ctx, fmt.Sprintf("a%d", i+1)); err != nil {
			return err
		}
	}
	var failed error
	err := s.Follow(ctx, func(r runner.Report) bool {
		goOn, err := s.react(ctx, r)
		failed = errors.Join(failed, err)
		return goOn
	})
	return errors.Join(failed, err)
}

func (s *agentShow) react(ctx context.Context, r runner.Report) (goOn bool, err error) {
	switch {
	case r.Kind == "has edited":
		s.reported = append(s.reported, r)
	case r.Kind == "gives way":
		s.gaveWay++
	case r.Kind == "throws an edit away":
		s.discarded++
		if r.Worker != "a4" || r.Reason != string(leasing.LostBroken) {
			return true, fmt.Errorf("%s lost a lease: %s", r.Worker, r.Err)
		}
	case r.Kind == "wants a second file":
		err = s.recordTrouble(ctx, r.Worker)
		if s.crossing = append(s.crossing, r.Worker); len(s.crossing) == 2 {
			s.Continue(s.crossing[0])
			return true, err
		}
		return false, err
	case r.Kind == "is in the middle of an edit" && r.Edit == "a3/2":
		err = s.recordTrouble(ctx, r.Worker)
		s.Announce("kill -KILL %s, in the middle of an edit of %v; a7 does its work", r.Worker, r.Paths)
		s.Kill(r.Worker)
		return false, errors.Join(err, s.start(ctx, "a7"))
	case r.Kind == "is in the middle of an edit" && r.Edit == "a4/2" && !s.dawdler:
		s.dawdler = true
		return true, s.force(ctx, r.Worker)
	}
	return true, nil
}

// recordTrouble records the leases that an agent in trouble holds.
func (s *agentShow) recordTrouble(ctx context.Context, agent string) error {
	held, err := leasing.HeldBy(ctx, s.Manager, agent, "")
	s.leases = append(s.leases, held...)
	return err
}

// force breaks the leases of the agent that dawdles, and waits until they have ended.
func (s *agentShow) force(ctx context.Context, agent string) error {
	before := len(s.leases)
	if err := s.recordTrouble(ctx, agent); err != nil {
		return err
	}
	held := s.leases[before:]
	s.Announce("%s forces %s, which dawdles, out of %d files: %s", operator, agent, len(held), reason)
	if _, err := leasing.ForceRelease(ctx, s.Manager, held, leasing.BreakOptions{Actor: operator, Reason: reason}); err != nil {
		return err
	}
	for _, lease := range held {
		for {
			now, err := s.Manager.Inspect(ctx, lease.Name)
			if err != nil {
				return err
			}
			if !now.Held || now.Token != lease.Token {
				break
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	return nil
}

// check checks that the promises were kept.
func (s *agentShow) check(ctx context.Context, audit *audit) error {
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
		trouble := inTrouble[lease.Owner]
		unknown := ended.Kind == "" && trouble.end == abstractions.HistoryExpired
		if began.Owner != lease.Owner || next.Kind == "" || ended.Kind != trouble.end && !unknown {
			return fmt.Errorf("%s was %s's with token %d, and its history is %v", lease.Name, lease.Owner, lease.Token, page.Entries)
		}
		_, file, _ := strings.Cut(lease.Name, ":/")
		rows = append(rows, []any{file, lease.Token, lease.Owner, trouble.what, ended.Kind, ended.Actor, ended.Reason, next.Owner, next.Token})
	}
	if len(s.leases) != 6 || s.gaveWay != 1 || s.discarded != 1 {
		return fmt.Errorf("trouble befell %d leases, and not 6; %d agents gave way, and %d was forced out, and not 1", len(s.leases), s.gaveWay, s.discarded)
	}
	lines, err := checkFiles(s.root, s.reported)
	if err != nil {
		return err
	}
	s.Table(rows...)
	s.OK("no edit is torn or lost: %d files have %d lines of %d edits", len(files), lines, len(s.reported))
	s.OK("the two that waited for each other learned of the deadlock, and one of them gave way")
	s.OK("the history has the end of each lease in trouble, and of the greater token after it")
	return nil
}
