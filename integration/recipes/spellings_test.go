//go:build unix

package recipes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/recipes/filelock"
)

// editor is a process that leases one file repeatedly, with each of its spellings.
type editor struct {
	Name, At  string // At is the URL of the leases
	Options   filelock.Options
	Folder    string // its working directory
	Spellings []string
	Log       string // the file in which it records that it is inside
}

// rounds is the number of times that each editor enters; an editor then continues until the editors
// have taken minTurns turns.
const rounds, minTurns = 20, 6

// Processes that spell one file differently never hold it at the same time: each records in a file
// outside of the tree when it enters and when it leaves.
func TestProcessesThatSpellOneFileDifferentlyExcludeEachOther(t *testing.T) {
	onEach(t, backends, func(t *testing.T, at, root string) {
		outside := t.TempDir()
		for _, folder := range []string{"src/deep", "docs"} {
			require.NoError(t, os.MkdirAll(filepath.Join(root, folder), 0o755))
		}
		require.NoError(t, os.WriteFile(filepath.Join(root, "src/a.go"), nil, 0o644))
		require.NoError(t, os.Link(filepath.Join(root, "src/a.go"), filepath.Join(root, "docs/hard")))
		for link, to := range map[string]string{"link": "src", "deeper": "src/deep", "docs/a": "../src/a.go", filepath.Join(outside, "way"): root, "round": filepath.Join(outside, "way", "docs")} {
			if !filepath.IsAbs(link) {
				link = filepath.Join(root, link)
			}
			require.NoError(t, os.Symlink(to, link))
		}
		way := filepath.Join(outside, "way")
		plain, viaWay, here := filelock.Options{Root: root, Name: "app"}, filelock.Options{Root: way, Name: "app"}, filelock.Options{Root: "..", Name: "app"}
		for name, editors := range map[string][]editor{
			"relative": {
				{Options: plain, Spellings: []string{"src/a.go", "./src//a.go", "docs/../src/a.go"}},
				{Options: here, Folder: filepath.Join(root, "docs"), Spellings: []string{root + "/src/a.go", "src/deep/../a.go"}},
			},
			"symbolic links": {
				{Options: plain, Spellings: []string{"link/a.go", "docs/a", "deeper/../a.go", "round/a"}},
				{Options: viaWay, Spellings: []string{"src/a.go", root + "/link/a.go", way + "/round/../link/deep/../a.go"}},
			},
			"hard links": {
				{Options: hardLinks(plain), Spellings: []string{"src/a.go", "docs/a"}},
				{Options: hardLinks(viaWay), Spellings: []string{"docs/hard", "round/hard"}},
			},
			// Linux does not fold case, but with the option the spellings are one name even on
			// Linux.
			"case": {
				{Options: foldCase(plain), Spellings: []string{"src/new.go", "src/NEW.go"}},
				{Options: foldCase(viaWay), Spellings: []string{"SRC/New.Go", "link/nEw.go"}},
			},
		} {
			t.Run(name, func(t *testing.T) {
				log := filepath.Join(t.TempDir(), "log")
				var processes []*servertest.Process
				for i, e := range editors {
					e.Name, e.At, e.Log = fmt.Sprint("editor ", i), at, log
					processes = append(processes, start(t, e.Folder, "edit", e))
				}
				for _, process := range processes {
					ctx, cancel := context.WithTimeout(t.Context(), atMost)
					defer cancel()
					require.NoError(t, process.Wait(ctx))
				}
				requireOneInside(t, log)
			})
		}
	})
}

func hardLinks(o filelock.Options) filelock.Options { o.HardLinks = true; return o }
func foldCase(o filelock.Options) filelock.Options  { o.FoldCase = true; return o }

// requireOneInside checks that each editor left before another editor entered.
func requireOneInside(t *testing.T, log string) {
	lines := linesOf(log)
	require.GreaterOrEqual(t, len(lines), 2*2*rounds)
	require.GreaterOrEqual(t, turns(log), minTurns)
	for i := 0; i < len(lines); i += 2 {
		who, in := strings.CutSuffix(lines[i], " in")
		require.True(t, in, "%q, and then %q", lines[max(i-1, 0)], lines[i])
		require.Equal(t, who+" out", lines[i+1], "after %q", lines[i])
	}
}

func linesOf(log string) []string {
	text, _ := os.ReadFile(log)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// turns returns how often an editor entered after another editor.
func turns(log string) (n int) {
	before := ""
	for _, line := range linesOf(log) {
		if who, in := strings.CutSuffix(line, " in"); in && who != before {
			before = who
			n++
		}
	}
	return n
}

// edit runs an editor.
func edit(description []byte) (err error) {
	ctx := context.Background()
	var e editor
	if err := json.Unmarshal(description, &e); err != nil {
		return err
	}
	p, err := openURL(ctx, e.At)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	m, err := leasing.NewManager(p, leasing.Options{Owner: e.Name, TTL: 5 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	tree, err := filelock.New(m, e.Options)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(e.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	for i := 0; i < rounds || turns(e.Log) < minTurns; i++ {
		set, err := tree.Acquire(ctx, []string{e.Spellings[i%len(e.Spellings)]})
		if err != nil {
			return err
		}
		_, in := fmt.Fprintln(log, e.Name, "in")
		pause(2 * time.Millisecond)
		_, out := fmt.Fprintln(log, e.Name, "out")
		if err := errors.Join(in, out, set.Release(ctx)); err != nil {
			return err
		}
	}
	return nil
}
