// Package filelease_test has agents lease files and folders of one tree on real
// servers.
package filelease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/open"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/recipes/filelease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const atMost = 2 * time.Minute // on a very slow machine

// backends are where the leases are: the URL for a tree at root.
var backends = map[string]func(t *testing.T, root string) string{
	"sqlite": func(t *testing.T, root string) string {
		folder, err := filelease.StateFolder(root)
		require.NoError(t, err)
		return "sqlite://" + folder + "/leases.db?create=true"
	},
	"redis": func(t *testing.T, _ string) string {
		return with(named(t, "LEASING_TEST_REDIS"), fmt.Sprintf("prefix=files_%x&retention=1m", rand.Uint64()))
	},
	"postgres": func(t *testing.T, _ string) string {
		server, schema := named(t, "LEASING_TEST_POSTGRES"), fmt.Sprintf("files_%x", rand.Uint64())
		conn, err := pgx.Connect(t.Context(), server)
		require.NoError(t, err)
		t.Cleanup(func() {
			_, err := conn.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
			require.NoError(t, err)
			require.NoError(t, conn.Close(context.Background()))
		})
		return with(server, "create=true&schema="+schema)
	},
}

// pause is work.
func pause(d time.Duration) { <-time.After(d) }

func named(t *testing.T, variable string) string {
	t.Helper()
	url := os.Getenv(variable)
	if url == "" {
		require.FailNow(t, "a server is required: run make test, or set "+variable)
	}
	return url
}

func with(url, query string) string {
	if strings.Contains(url, "?") {
		return url + "&" + query
	}
	return url + "?" + query
}

// onEach runs a test on each backend, with a tree of these files.
func onEach(t *testing.T, files []string, test func(t *testing.T, root string, agent func(t *testing.T, root string) *filelease.Tree)) {
	for name, url := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for _, file := range files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(root, file), nil, 0o644))
			}
			at := url(t, root)
			test(t, root, func(t *testing.T, root string) *filelease.Tree {
				provider, err := open.URL(t.Context(), at, sqllease.Opener(), redislease.Opener())
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, provider.Close()) })
				manager, err := leasing.NewManager(provider, leasing.Options{TTL: 5 * time.Second})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, manager.Close(context.Background())) })
				tree, err := filelease.New(manager, filelease.Options{Root: root, Name: "app"})
				require.NoError(t, err)
				return tree
			})
		})
	}
}

// Agents that spell one file in their own ways, and some its folder, never hold it at
// once.
func TestSpellingsOfOneFileExcludeEachOther(t *testing.T) {
	onEach(t, []string{"src/a.go", "docs/x"}, func(t *testing.T, root string, agent func(t *testing.T, root string) *filelease.Tree) {
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
					set, err := tree.Acquire(ctx, []string{path}, nil)
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

// A file is not passed over for good where several take turns with its folder.
func TestAFileGetsItsTurnAmongThoseWhoShareItsFolder(t *testing.T) {
	onEach(t, []string{"src/a"}, func(t *testing.T, root string, agent func(t *testing.T, root string) *filelease.Tree) {
		ctx, cancel := context.WithCancel(t.Context())
		var rounds atomic.Int64
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		for range 3 {
			tree := agent(t, root)
			all.Go(func() {
				for ctx.Err() == nil {
					if set, err := tree.Acquire(ctx, []string{"src"}, nil); err == nil {
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
		set, err := tree.Acquire(waiting, []string{"src/a"}, nil)
		require.NoError(t, err)
		t.Logf("after %d turns of others", rounds.Load()-before)
		require.NoError(t, set.Release(t.Context()))
	})
}
