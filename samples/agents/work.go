package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/history"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
	"github.com/distributedleasing/leasing/recipes/deadlock"
	"github.com/distributedleasing/leasing/recipes/filelock"
	"github.com/distributedleasing/leasing/recipes/multilease"
	"github.com/distributedleasing/leasing/samples/internal/place"
	"github.com/distributedleasing/leasing/samples/internal/runner"
)

// The kinds of the agents' reports.
const (
	did      = "did"      // an edit: Text is its ID and its paths
	troubled = "troubled" // holds what it needs for its trouble
	told     = "told"     // of a deadlock; it gives way
)

// edits is the number of edits of each agent.
const edits = 6

// The files of agents in trouble. No other agent wants both crossed files, and they have the
// greatest names, so another agent that holds one of the two waits for no further file.
var crossed, dying, dawdled = files[4:], []string{files[0], files[2]}, []string{files[1], files[3]}

// agent is a worker.
type agent struct {
	*runner.Worker
	tree *filelock.Tree
}

// work edits. The worker's argument is the root of the tree; its name selects its trouble.
func work(ctx context.Context, w *runner.Worker) (err error) {
	audit, err := openAudit(ctx, w.Place, w.Data, w.Manager)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, audit.finish(ctx, w.Manager), audit.Close()) }()
	tree, err := filelock.New(w.Manager, filelock.Options{Root: w.Arg, Name: "tree-" + w.Place.Scope})
	if err != nil {
		return err
	}
	a := &agent{w, tree}
	for i := 1; i <= edits && err == nil; i++ {
		id := fmt.Sprintf("%s/%d", w.Name, i)
		switch {
		case w.Name == "a1" && i == 1:
			err = a.cross(ctx, id, crossed[0], crossed[1])
		case w.Name == "a2" && i == 1:
			err = a.cross(ctx, id, crossed[1], crossed[0])
		case w.Name == "a3" && i == 2:
			err = a.edit(ctx, id, dying, func(context.Context) { a.SayAndWait(troubled, 0, "is in the midst of an edit of %v", dying) })
		case w.Name == "a4" && i == 2:
			err = a.dawdle(ctx, id)
		case w.Name == "a7":
			return a.edit(ctx, id, dying, nil)
		default:
			err = a.edit(ctx, id, wish(), nil)
		}
	}
	return err
}

// wish are the paths of an edit.
func wish() []string {
	paths := []string{files[rand.IntN(4)], filepath.Join(link, filepath.Base(crossed[rand.IntN(2)]))}
	return paths[:1+rand.IntN(2)]
}

// edit edits files under their leases; a6 edits under leases of folders.
func (a *agent) edit(ctx context.Context, id string, paths []string, meet func(context.Context)) error {
	leased := paths
	if a.Name == "a6" {
		leased = append([]string{filepath.Dir(paths[0])}, paths[1:]...)
	}
	return a.tree.Do(ctx, leased, func(ctx context.Context, _ *multilease.Set) error { return a.under(ctx, id, paths, meet) })
}

// under edits files whose leases are held.
func (a *agent) under(ctx context.Context, id string, paths []string, meet func(context.Context)) error {
	err := edit(ctx, a.Arg, id, paths, meet)
	if err == nil {
		a.Report(runner.Report{Kind: did, Text: id + " " + strings.Join(paths, " ")})
	}
	return err
}

// dawdle keeps its files until it is forced out. Then it throws its edit away, and repeats the edit.
func (a *agent) dawdle(ctx context.Context, id string) error {
	err := a.edit(ctx, id, dawdled, func(ctx context.Context) {
		a.Say(troubled, 0, "has %v, and dawdles", dawdled)
		<-ctx.Done()
	})
	if lost, is := errors.AsType[*leasing.LostError](err); !is || lost.Reason != leasing.LostBroken {
		return fmt.Errorf("was not forced out: %w", err)
	}
	a.Say("", 0, "is forced out: %v", err)
	return a.edit(ctx, id, dawdled, nil)
}

// cross asks for a second file while it holds another, which no agent should do that knows of both files. It
// waits as an actor, so it gets an error if the other agent waits for it in turn. It waits for the lease
// of the file alone, which is enough where no agent leases the file's folder.
func (a *agent) cross(ctx context.Context, id, first, second string) error {
	set, err := a.tree.Acquire(ctx, []string{first})
	if err != nil {
		return err
	}
	actor, err := deadlock.New(a.Manager, deadlock.Options{After: 200 * time.Millisecond, Every: 400 * time.Millisecond})
	name, err2 := a.tree.LeaseName(second)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	actor.Add(set.Leases()[0])
	a.SayAndWait(troubled, 0, "has %s, and wants %s too", first, second)
	lease, err := actor.Acquire(ctx, name)
	if circle, is := errors.AsType[*deadlock.Error](err); is {
		a.Say(told, 0, "is told: %d agents wait for each other. It gives way, and begins again", len(circle.Waits))
		return errors.Join(set.Release(ctx), a.edit(ctx, id, crossed, nil))
	}
	if err != nil {
		return err
	}
	return multilease.Under(ctx, multilease.Of(ctx, append(set.Leases(), lease)...), func(ctx context.Context, _ *multilease.Set) error {
		return a.under(ctx, id, crossed, nil)
	})
}

// audit is the history of the leases.
type audit struct {
	leasing.Provider // that has it
	abstractions.HistoryReader
	recorder *history.Recorder // nil where the provider of the leases keeps a history
}

// openAudit opens the history: that of the provider, or a table beside the data, into which it writes
// the manager's events.
func openAudit(ctx context.Context, p place.Place, data *place.Data, m *leasing.Manager) (*audit, error) {
	provider, err := place.Open(ctx, p.Leases)
	if err != nil {
		return nil, err
	}
	if reader, keeps := abstractions.As[abstractions.HistoryReader](provider); keeps {
		return &audit{provider, reader, nil}, nil
	}
	_, err = data.ExecContext(ctx, "PRAGMA journal_mode = wal")
	if err := errors.Join(err, provider.Close()); err != nil {
		return nil, err
	}
	table, err := sqlitelease.Open(ctx, sqlitelease.Options{DB: data.DB, Table: "audit", Create: true, History: true})
	if err != nil {
		return nil, err
	}
	recorder, err := history.New(table, history.Options{})
	if err == nil {
		m.Subscribe(recorder.Observe)
	}
	reader, _ := abstractions.As[abstractions.HistoryReader](table)
	return &audit{table, reader, recorder}, err
}

// finish closes the manager, so that all that it did is in the history.
func (a *audit) finish(ctx context.Context, m *leasing.Manager) error {
	err := m.Close(context.WithoutCancel(ctx))
	if a.recorder != nil {
		err = errors.Join(err, a.recorder.Close(ctx))
	}
	return err
}
