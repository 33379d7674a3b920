// Command agents shows processes that edit the files of one tree under leases, and the state of
// the files after the processes got into each other's way.
//
//	go run ./agents                           # leases in the tree's own SQLite file
//	go run ./agents -url redis://127.0.0.1    # or postgres://..., sqlite:///path
//
// Six agents edit overlapping sets of files, some by other spellings of their paths, one of them
// by the folder. Trouble befalls four of them:
//
//   - two wait for each other, the deadlock is reported, and one gives way;
//   - one is killed in the midst of an edit, and a seventh does its work;
//   - one dawdles over its files, and an operator forces it out.
//
// Look at the table in the end: it shows the history of the leases that trouble befell. The provider
// writes this history on SQLite and PostgreSQL, package history elsewhere. Look at work.go
// for code like that of an application.
//
// The exit code is 0 only if no edit is torn or lost, and the history agrees.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/distributedleasing/leasing/recipes/filelock"
	"github.com/distributedleasing/leasing/samples/internal/runner"
)

// scenario has short leases, so that the leases of a killed agent end soon.
var scenario = runner.Scenario{
	Name: "agents", TTL: 2 * time.Second, Work: work,
}

func main() { runner.Main("agents", run, scenario) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	url, err := runner.URL("agents", args, "where the leases are: redis://..., postgres://... or sqlite:///path (default: an SQLite file in the tree)")
	if err != nil {
		return err
	}
	root, err := makeTree()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	if url == "" || url == "sqlite" {
		folder, err := filelock.StateFolder(root)
		if err != nil {
			return err
		}
		url = "sqlite://" + folder + "/leases.db"
	}
	here := scenario
	here.Control = func(ctx context.Context, r *runner.Runner) error { return control(ctx, r, root) }
	return runner.Run(ctx, here, url, out)
}
