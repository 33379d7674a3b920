package sqllease

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
	"github.com/stretchr/testify/require"
)

// childVariable makes the test binary the program of a child process: it holds
// the URL of the provider to open.
const childVariable = "SQLLEASE_TEST_CHILD"

const (
	childProcesses = 3
	childRounds    = 40
)

// Processes that start together on an empty database make its tables, and then
// exclude each other: whoever holds the lease makes a file that must not be
// there, and removes it again. Each of them gets its turns.
func TestProcessesExcludeEachOther(t *testing.T) {
	urls := map[string]func() string{
		"postgres": func() string { return withParameters(postgresURL(t), "schema", newSchema(t), "create", "true") },
		"sqlite":   func() string { return "sqlite://" + filepath.Join(t.TempDir(), "leases.db") + "?create=true" },
	}
	for dialect, rawURL := range urls {
		t.Run(dialect, func(t *testing.T) {
			guard := filepath.Join(t.TempDir(), "guard")
			var children []*exec.Cmd
			var outputs []io.Reader
			for range childProcesses {
				child := exec.CommandContext(bounded(t), os.Args[0], guard)
				child.Stderr = os.Stderr
				output, err := child.StdoutPipe()
				require.NoError(t, err)
				children, outputs = append(children, child), append(outputs, output)
			}
			where := rawURL()
			for _, child := range children {
				child.Env = append(os.Environ(), childVariable+"="+where)
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
		})
	}
}

func child(rawURL string) (exitCode int) {
	work := func() error { return takeTurns(rawURL, os.Args[1]) }
	switch rawURL {
	case "open":
		work = func() error { return openOnly(os.Args[1], os.Args[2]) }
	case "loop":
		work = func() error { return loop(os.Args[1]) }
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func takeTurns(rawURL, guard string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := OpenURL(ctx, rawURL)
	if err != nil {
		return err
	}
	defer p.Close()
	for range childRounds {
		request := claimOf("one at a time", 20*time.Second)
		grant, err := p.Acquire(ctx, request)
		for errors.Is(err, abstractions.ErrHeld) {
			<-time.After(time.Millisecond) // another process decides when it is free
			grant, err = p.Acquire(ctx, request)
		}
		if err != nil {
			return err
		}
		file, err := os.OpenFile(guard, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("somebody else is in: %w", err)
		}
		file.Close()
		fmt.Println(grant.Token)
		os.Remove(guard)
		if err := p.Release(ctx, abstractions.ReleaseRequest{Name: request.Name, ID: request.ID, Token: grant.Token}); err != nil {
			return err
		}
	}
	return nil
}
