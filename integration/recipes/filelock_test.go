package recipes_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/filelock"
)

// inTree runs a test on each backend, with a tree of the given files, and a function that makes
// agents for the tree.
func inTree(t *testing.T, files []string, test func(t *testing.T, root string, agent func(t *testing.T, root string) *filelock.Tree)) {
	onEach(t, backends, func(t *testing.T, at, root string) {
		for _, file := range files {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, file), nil, 0o644))
		}
		test(t, root, func(t *testing.T, root string) *filelock.Tree {
			m := manager(t, provider(t, at), leasing.Options{TTL: 5 * time.Second})
			tree, err := filelock.New(m, filelock.Options{Root: root, Name: "app"})
			require.NoError(t, err)
			return tree
		})
	})
}

// Agents that lease one file under different spellings, or through its folder, never hold it at the
// same time.
func TestSpellingsOfOneFileExcludeEachOther(t *testing.T) {
	inTree(t, []string{"src/a.go", "docs/x"}, func(t *testing.T, root string, agent func(t *testing.T, root string) *filelock.Tree) {
		require.NoError(t, os.Symlink("src", filepath.Join(root, "link")))
		require.NoError(t, os.Symlink("../src/a.go", filepath.Join(root, "docs/a")))
		way := filepath.Join(t.TempDir(), "way")
		require.NoError(t, os.Symlink(root, way))
		ctx, cancel := context.WithTimeout(t.Context(), atMost)
		defer cancel()
		var inside, rounds atomic.Int64
		var all sync.WaitGroup
		for i, path := range []string{"src/a.go", "link/a.go", "docs/a", way + "/src/../docs/a", "src/", "."} {
			tree := agent(t, root)
			if i%2 == 1 {
				tree = agent(t, way)
			}
			all.Go(func() {
				for range 5 {
					set, err := tree.Acquire(ctx, []string{path})
					if err != nil {
						t.Errorf("%s: %v", path, err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%s: %d at a time", path, n)
					}
					pause(time.Millisecond)
					inside.Add(-1)
					rounds.Add(1)
					if err := set.Release(ctx); err != nil {
						t.Errorf("%s: %v", path, err)
					}
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 30, rounds.Load())
	})
}

// A waiter for a file gets its turn although several agents take turns at leasing the file's folder.
func TestAFileGetsItsTurnAmongThoseWhoShareItsFolder(t *testing.T) {
	inTree(t, []string{"src/a"}, func(t *testing.T, root string, agent func(t *testing.T, root string) *filelock.Tree) {
		ctx, cancel := context.WithCancel(t.Context())
		var rounds atomic.Int64
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		for range 3 {
			tree := agent(t, root)
			all.Go(func() {
				for ctx.Err() == nil {
					if set, err := tree.Acquire(ctx, []string{"src"}); err == nil {
						rounds.Add(1)
						pause(20 * time.Millisecond)
						_ = set.Release(context.Background())
					}
				}
			})
		}
		tree := agent(t, root)
		for rounds.Load() < 5 {
			pause(time.Millisecond)
		}
		waiting, giveUp := context.WithTimeout(t.Context(), atMost)
		defer giveUp()
		before := rounds.Load()
		set, err := tree.Acquire(waiting, []string{"src/a"})
		require.NoError(t, err)
		t.Logf("after %d turns of others", rounds.Load()-before)
		require.NoError(t, set.Release(t.Context()))
	})
}
