// Command agents is an agent that edits files of a tree under their leases. Each argument is an edit: its paths, separated by
// commas. An agent that edits a folder leases the folder. A plus in place of a comma stands for an agent that learns in the
// middle of its work that it needs the second file. Start several agents; "make agents" does that, kills one, and forces one out.
//
//	go run ./agents -tree . notes.txt notes.txt,todo.txt docs
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/history"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
	"github.com/distributedleasing/leasing/recipes/filelock"
	"github.com/distributedleasing/leasing/samples/internal/app"
)

var (
	root  = flag.String("tree", ".", "root of the tree")
	audit = flag.String("history", "", "SQLite file for the history of the leases, where the backend keeps none")
)

func main() { app.Main("tree", work) }

func work(ctx context.Context, a *app.App) (err error) {
	if *audit != "" {
		finish, recordErr := record(ctx, a.Manager)
		if recordErr != nil {
			return recordErr
		}
		defer func() { err = errors.Join(err, finish()) }()
	}
	tree, err := filelock.New(a.Manager, filelock.Options{Root: *root, Name: a.Name})
	for i, task := range flag.Args() {
		if err != nil {
			break
		}
		by := &agent{a, tree}
		edit := fmt.Sprintf("%s/%d", a.Owner, i+1)
		first, second, crosses := strings.Cut(task, "+")
		if crosses {
			err = by.editAcross(ctx, edit, first, second)
		} else {
			err = by.edit(ctx, edit, strings.Split(task, ","))
		}
	}
	return err
}

// record writes the manager's events to a history. finish closes the manager, so that the history has all events.
func record(ctx context.Context, m *leasing.Manager) (finish func() error, err error) {
	table, err := sqlitelease.Open(ctx, sqlitelease.Options{Path: *audit, Create: true, History: true})
	if err != nil {
		return nil, err
	}
	recorder, err := history.New(table, history.Options{})
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	m.Subscribe(recorder.Observe)
	return func() error {
		closing := context.WithoutCancel(ctx)
		return errors.Join(m.Close(closing), recorder.Close(closing), table.Close())
	}, nil
}
