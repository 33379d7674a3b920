// Command release prepares and checks what the next release would publish,
// before anything is published.
//
//	release tidy [-diff]     go mod tidy in every module of the repository
//	release check [-update]  use every released module the way a stranger would
//
// The modules require each other at a version that no proxy has yet (see
// NextVersion). So each is packed from the working tree into a module proxy
// made of files, and the go command runs outside the workspace, with that proxy
// before the user's own and with a fresh module cache.
//
// check fails unless, for every released module,
//   - the rules in rules.go hold: no replace, a licence, no sibling's internals;
//   - it builds and vets as it was packed;
//   - in an empty module, `go get` brings it, and its program in consumers/
//     builds, runs, and ends well;
//   - what that links, and what comes into its module graph, is what allow/ says.
//
// With -update the lists in allow/ are written instead of held against.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, ".", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run works on the repository whose go.work is in dir or above it.
func run(ctx context.Context, dir string, args []string) error {
	if len(args) == 0 {
		return errors.New("want a command: tidy or check")
	}
	tree, err := loadTree(ctx, dir)
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	diff := flags.Bool("diff", false, "tidy: change nothing, fail if anything would change")
	update := flags.Bool("update", false, "check: write the allow-lists")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	switch args[0] {
	case "tidy":
		return tidy(ctx, tree, *diff)
	case "check":
		return check(ctx, tree, *update)
	}
	return fmt.Errorf("unknown command %q: want tidy or check", args[0])
}
