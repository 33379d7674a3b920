package filelock

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/recipes/multilease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checkout is a tree on disk, and the provider of its agents.
type checkout struct {
	*testing.T
	root     string
	provider *leasingtest.Provider
}

// withCheckout runs a test in virtual time, in a folder with the given files. A name that ends in a
// slash is a folder.
func withCheckout(t *testing.T, files []string, test func(t *testing.T, c *checkout)) {
	t.Helper()
	root := folderWith(t, files...)
	synctest.Test(t, func(t *testing.T) { test(t, &checkout{t, root, leasingtest.NewProvider()}) })
}

func folderWith(t *testing.T, files ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range files {
		path := filepath.Join(root, name)
		if name[len(name)-1] == '/' {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	return root
}

// agent returns the Tree of an agent, a process that works in the tree.
func (c *checkout) agent(name string, options Options) *Tree {
	c.Helper()
	m := leasingtest.NewManagerOn(c.T, c.provider, leasing.Options{Owner: name, TTL: 10 * time.Second})
	if options.Root == "" {
		options.Root = c.root
	}
	options.Name = "app"
	tree, err := New(m, options)
	require.NoError(c, err)
	return tree
}

func (c *checkout) takes(tree *Tree, paths ...string) *multilease.Set {
	c.Helper()
	set, err := tree.TryAcquire(c.Context(), paths)
	require.NoError(c, err)
	c.Cleanup(func() { _ = set.Release(context.Background()) })
	return set
}

func (c *checkout) refused(tree *Tree, paths ...string) {
	c.Helper()
	_, err := tree.TryAcquire(c.Context(), paths)
	require.ErrorIs(c, err, leasing.ErrHeld)
}

// waits acquires paths in the background.
func (c *checkout) waits(tree *Tree, paths ...string) <-chan *multilease.Set {
	result := make(chan *multilease.Set, 1)
	go func() {
		set, err := tree.Acquire(c.Context(), paths)
		if err != nil {
			c.Errorf("%v: %v", paths, err)
		} else {
			c.Cleanup(func() { _ = set.Release(context.Background()) })
		}
		result <- set
	}()
	synctest.Wait()
	return result
}

func names(set *multilease.Set) (names []string) {
	for _, lease := range set.Leases() {
		names = append(names, lease.Name())
	}
	return names
}
