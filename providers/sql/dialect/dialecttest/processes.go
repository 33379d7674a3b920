package dialecttest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// ChildVariable is the environment variable that makes the test binary run as a child
// process. Its value is the name of a role, or the URL of the provider to open.
const ChildVariable = "LEASING_TEST_CHILD"

const (
	childProcesses = 3
	childRounds    = 40
)

// Main runs the tests of a dialect, or the program of a child process. roles are the dialect's own programs, by name.
func Main(m *testing.M, d Database, roles map[string]func(args []string) error) {
	what := os.Getenv(ChildVariable)
	if what == "" {
		goleak.VerifyTestMain(m)
		return
	}
	work := func(args []string) error { return takeTurns(d.Open, what, args[0]) }
	if role, known := roles[what]; known {
		work = role
	}
	if err := work(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

// Processes that start together on an empty database make its tables, and then exclude
// each other: the holder of the lease creates a file that must not exist yet, and then
// removes the file. Each process completes its rounds.
func processesExcludeEachOther(t *testing.T, d Database) {
	guard := filepath.Join(t.TempDir(), "guard")
	var children []*exec.Cmd
	var outputs []io.Reader
	for range childProcesses {
		child := exec.CommandContext(Bounded(t), os.Args[0], guard)
		child.Stderr = os.Stderr
		output, err := child.StdoutPipe()
		require.NoError(t, err)
		children, outputs = append(children, child), append(outputs, output)
	}
	where := WithParameters(d.URL(t), "create", "true")
	for _, child := range children {
		child.Env = append(os.Environ(), ChildVariable+"="+where)
		require.NoError(t, child.Start())
	}
	var tokens []int64
	for i, child := range children {
		for lines := bufio.NewScanner(outputs[i]); lines.Scan(); {
			token, err := strconv.ParseInt(lines.Text(), 10, 64)
			require.NoError(t, err)
			tokens = append(tokens, token)
		}
		require.NoError(t, child.Wait())
	}
	require.Len(t, tokens, childProcesses*childRounds)
	slices.Sort(tokens)
	require.Len(t, slices.Compact(tokens), childProcesses*childRounds, "no token was given twice")
}

func takeTurns(open func(context.Context, string) (*sqllease.Provider, error), rawURL, guard string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := open(ctx, rawURL)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	for range childRounds {
		request := ClaimOf("one at a time", 20*time.Second)
		grant, err := p.Acquire(ctx, request)
		for errors.Is(err, abstractions.ErrHeld) {
			<-time.After(time.Millisecond) // another process decides when the name is free
			grant, err = p.Acquire(ctx, request)
		}
		if err != nil {
			return err
		}
		file, err := os.OpenFile(guard, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("another process is in: %w", err)
		}
		_ = file.Close()
		fmt.Println(grant.Token)
		_ = os.Remove(guard)
		if err := p.Release(ctx, abstractions.ReleaseRequest{Name: request.Name, ID: request.ID, Token: grant.Token}); err != nil {
			return err
		}
	}
	return nil
}
