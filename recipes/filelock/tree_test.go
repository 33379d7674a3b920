package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	"github.com/distributedleasing/leasing/recipes/multilease"
)

// A file has one lease, whatever the spelling of its path.
func TestSpellingsOfOneFileAreOneLease(t *testing.T) {
	withCheckout(t, []string{"src/a.go", "docs/"}, func(t *testing.T, c *checkout) {
		require.NoError(t, os.Symlink("src", filepath.Join(c.root, "link")))
		require.NoError(t, os.Symlink(filepath.Join(c.root, "src/a.go"), filepath.Join(c.root, "docs/absolute")))
		require.NoError(t, os.Symlink("../src/later", filepath.Join(c.root, "docs/dangling")))
		outside := folderWith(t)
		require.NoError(t, os.Symlink(c.root, filepath.Join(outside, "way")))
		tree := c.agent("a", Options{})
		for path, name := range map[string]string{
			"src/a.go": "app:/src/a.go", "./src//a.go": "app:/src/a.go", "link/a.go": "app:/src/a.go", "docs/absolute": "app:/src/a.go",
			"link/../src/a.go": "app:/src/a.go", "docs/../link/a.go": "app:/src/a.go", c.root + "/src/a.go": "app:/src/a.go",
			outside + "/way/src/a.go": "app:/src/a.go", "src": "app:/src", "src/": "app:/src", "link": "app:/src", "link/": "app:/src", ".": "app:", "/" + c.root: "app:",
			"src/..": "app:", "docs/dangling": "app:/src/later", "link/new/file": "app:/src/new/file", "new/": "app:/new", "src/A.go": "app:/src/A.go",
		} {
			found, err := tree.LeaseName(path)
			require.NoError(t, err, path)
			require.Equal(t, name, found, path)
		}
		// The system follows the link first, and then goes to the parent; a lexical .. would lead to
		// another file.
		require.NoError(t, os.Symlink(filepath.Join(c.root, "src"), filepath.Join(outside, "far")))
		found, err := tree.LeaseName(outside + "/far/../docs")
		require.NoError(t, err)
		require.Equal(t, "app:/docs", found)

		set := c.takes(tree, "link/a.go")
		c.refused(c.agent("b", Options{}), "docs/absolute")
		require.NoError(t, set.Release(t.Context()))
	})
}

func TestCheckoutsAtOtherPlacesMeanTheSameFile(t *testing.T) {
	withCheckout(t, []string{"a"}, func(t *testing.T, c *checkout) {
		other := c.agent("other machine", Options{Root: folderWith(t, "a")})
		set := c.takes(c.agent("here", Options{}), "a")
		c.refused(other, "a")
		require.NoError(t, set.Release(t.Context()))
		c.takes(other, "a")
	})
}

func TestPathsThatCanNotBeLeasedAreRefused(t *testing.T) {
	withCheckout(t, []string{"file", "folder/"}, func(t *testing.T, c *checkout) {
		require.NoError(t, os.Symlink("loop", filepath.Join(c.root, "loop")))
		require.NoError(t, os.Symlink("/", filepath.Join(c.root, "out")))
		tree := c.agent("a", Options{})
		for _, path := range []string{
			"", "..", "/etc/passwd", "../" + filepath.Base(c.root) + "x", "out/etc", "loop", "file/below", "file/", "missing/../file", "a\x00b",
			c.root + "x", strings.Repeat("long/", 110),
		} {
			_, err := tree.LeaseName(path)
			require.ErrorIs(t, err, leasing.ErrInvalid, path)
			_, err = tree.TryAcquire(t.Context(), []string{"folder", path})
			require.ErrorIs(t, err, leasing.ErrInvalid, path)
		}
		for _, options := range []leasing.AcquireOptions{{WaitLimit: time.Second}, {NoAutoRenew: true}, queueOnlyManager(tree.manager).AcquireOptions()} {
			other, err := New(tree.manager.With(options), tree.options)
			require.NoError(t, err)
			_, err = other.Acquire(t.Context(), []string{"file"})
			require.ErrorIs(t, err, leasing.ErrInvalid)
		}
		_, err := tree.Acquire(t.Context(), nil)
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorIs(t, tree.Do(t.Context(), []string{"file"}, nil), leasing.ErrInvalid)
		for _, options := range []Options{{Name: "x"}, {Root: c.root}, {Root: c.root, Name: "a:b"}, {Root: c.root + "/file", Name: "x"}, {Root: c.root + "/none", Name: "x"}} {
			_, err := New(tree.manager, options)
			require.ErrorIs(t, err, leasing.ErrInvalid, "%+v", options)
		}
		_, err = New(nil, Options{Root: c.root, Name: "x"})
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.Zero(t, c.provider.Count(leasingtest.Acquire), "nothing is sent")
	})
}

func TestAFolderCoversWhatIsBelowIt(t *testing.T) {
	withCheckout(t, []string{"src/a", "src/sub/b", "srcx"}, func(t *testing.T, c *checkout) {
		ann, bob := c.agent("ann", Options{}), c.agent("bob", Options{})
		set := c.takes(ann, "src/")
		for _, path := range []string{"src", "src/a", "src/new", "src/sub/", "src/sub/b", "src/sub/deep/new", "."} {
			c.refused(bob, path)
		}
		_, err := bob.TryAcquire(t.Context(), []string{"src/a"})
		require.ErrorContains(t, err, `the folder "app:/src": held by another: "ann"`)
		var held *leasing.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "ann", held.Holder.Owner)
		c.takes(bob, "srcx")
		require.NoError(t, set.Release(t.Context()))

		file := c.takes(bob, "src/sub/b")
		for _, path := range []string{"src", ".", "src/sub"} {
			c.refused(ann, path)
		}
		c.takes(ann, "src/a")
		require.NoError(t, file.Err())
	})
}

// Whichever comes second, the folder or the file, waits for the other's release.
func TestFoldersAndFilesWaitForEachOther(t *testing.T) {
	withCheckout(t, []string{"src/a", "src/b"}, func(t *testing.T, c *checkout) {
		ann, bob, eve := c.agent("ann", Options{}), c.agent("bob", Options{}), c.agent("eve", Options{})
		a, b := c.takes(ann, "src/a"), c.takes(eve, "src/b")
		folder := c.waits(bob, "src/")
		require.NoError(t, a.Release(t.Context()))
		time.Sleep(time.Minute)
		require.Empty(t, folder)
		again := c.waits(ann, "src/a")
		time.Sleep(time.Minute)
		require.Empty(t, again, "the folder's lease is there already")
		require.NoError(t, b.Release(t.Context()))
		set := <-folder
		require.Equal(t, []string{"app:/src"}, names(set))
		time.Sleep(time.Minute)
		require.Empty(t, again)
		require.NoError(t, set.Release(t.Context()))
		require.Equal(t, []string{"app:/src/a"}, names(<-again))
	})
}

// Waiters for different files in a held folder do not wait for each other.
func TestThoseWhoWaitBehindAFolderGetOn(t *testing.T) {
	withCheckout(t, []string{"src/"}, func(t *testing.T, c *checkout) {
		ann := c.agent("ann", Options{})
		busy := c.takes(c.agent("eve", Options{}), "src/busy")
		set := func() *multilease.Set { // acquired directly, without a wait for the leases below
			l, err := ann.manager.TryAcquire(t.Context(), "app:/src")
			require.NoError(t, err)
			return multilease.Of(t.Context(), l)
		}()
		held := c.waits(c.agent("b", Options{}), "src/busy")
		var free []<-chan *multilease.Set
		for i := range 20 {
			free = append(free, c.waits(c.agent(fmt.Sprint(i), Options{}), fmt.Sprint("src/", i)))
		}
		require.NoError(t, set.Release(t.Context()))
		for _, one := range free {
			require.NotNil(t, <-one)
		}
		require.Empty(t, held)
		require.NoError(t, busy.Release(t.Context()))
		require.NotNil(t, <-held)
	})
}

// A queue-only lease does not exclude a lease of a folder above or of a file below.
func TestThoseWhoPassAreInNobodysWay(t *testing.T) {
	withCheckout(t, []string{"src/a"}, func(t *testing.T, c *checkout) {
		ann, bob := c.agent("ann", Options{}), c.agent("bob", Options{})
		for _, name := range []string{"app:/src", "app:"} {
			l, err := queueOnlyManager(ann.manager).TryAcquire(t.Context(), name)
			require.NoError(t, err)
			require.NoError(t, c.takes(bob, "src/a").Release(t.Context()))
			require.NoError(t, l.Release(t.Context()))
		}
		l, err := queueOnlyManager(ann.manager).TryAcquire(t.Context(), "app:/src/a")
		require.NoError(t, err)
		c.takes(bob, "src")
		require.NoError(t, l.Release(t.Context()))
	})
}

// A waiter for a file is served eventually, even if several holders take turns with its folder.
func TestAFileGetsItsTurnAmongThoseWhoShareItsFolder(t *testing.T) {
	withCheckout(t, []string{"src/a"}, func(t *testing.T, c *checkout) {
		c.provider.Use(func(_ context.Context, _ leasingtest.Call, apply func() error) error {
			time.Sleep(time.Millisecond)
			return apply()
		})
		ctx, cancel := context.WithCancel(t.Context())
		var rounds atomic.Int64
		var all sync.WaitGroup
		for i := range 3 {
			tree := c.agent(fmt.Sprint(i), Options{})
			all.Go(func() {
				for ctx.Err() == nil {
					if set, err := tree.Acquire(ctx, []string{"src"}); err == nil {
						rounds.Add(1)
						time.Sleep(100 * time.Millisecond)
						_ = set.Release(t.Context())
					}
				}
			})
		}
		time.Sleep(time.Second)
		before := rounds.Load()
		limited, giveUp := context.WithTimeout(t.Context(), time.Minute)
		defer giveUp()
		set, err := c.agent("file", Options{}).Acquire(limited, []string{"src/a"})
		require.NoError(t, err)
		require.LessOrEqual(t, rounds.Load()-before, int64(6))
		require.NoError(t, set.Release(t.Context()))
		cancel()
		all.Wait()
	})
}

func TestSeveralPathsAreAcquiredInOrderAllOrNone(t *testing.T) {
	withCheckout(t, []string{"a", "b", "c/d", "c/e"}, func(t *testing.T, c *checkout) {
		ann, bob := c.agent("ann", Options{}), c.agent("bob", Options{})
		set := c.takes(ann, "c/d", "b", "c", "a", "b")
		require.Equal(t, []string{"app:/a", "app:/b", "app:/c"}, names(set), "and what is covered is left out")
		name, err := ann.LeaseName("a")
		require.NoError(t, err)
		require.Equal(t, "ann", set.Lease(name).Owner())
		require.NoError(t, set.Release(t.Context()))

		theirs := c.takes(bob, "c/e")
		c.refused(ann, "a", "b", "c")
		for _, name := range []string{"app:/a", "app:/b", "app:/c"} {
			r, err := bob.manager.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.False(t, r.Held, name)
		}
		require.NoError(t, theirs.Err())
	})
}

func TestCaseIsFoldedWhereTheOptionsSaySo(t *testing.T) {
	withCheckout(t, []string{"README", "straße"}, func(t *testing.T, c *checkout) {
		folding := c.agent("a", Options{FoldCase: true})
		for _, pair := range [][2]string{{"README", "readme"}, {"new/ÄÖÜ", "NEW/äöü"}, {"k", "\u212a"}} { // the Kelvin sign
			one, err := folding.LeaseName(pair[0])
			require.NoError(t, err)
			other, err := folding.LeaseName(pair[1])
			require.NoError(t, err)
			require.Equal(t, one, other)
		}
		require.False(t, foldsCase(c.root), "this file system distinguishes them")
	})
}

func TestHardLinksExcludeEachOtherIfTheOptionsSaySo(t *testing.T) {
	withCheckout(t, []string{"a/one", "single"}, func(t *testing.T, c *checkout) {
		require.NoError(t, os.Link(filepath.Join(c.root, "a/one"), filepath.Join(c.root, "two")))
		ann, bob := c.agent("ann", Options{HardLinks: true}), c.agent("bob", Options{HardLinks: true})
		set := c.takes(ann, "a/one")
		require.Len(t, set.Leases(), 3, "two names and the inode")
		c.refused(bob, "two")
		c.refused(bob, filepath.Join(c.root, "two"))
		c.takes(bob, "single")
		require.NoError(t, os.Link(filepath.Join(c.root, "single"), filepath.Join(c.root, "later")))
		c.refused(ann, "later") // although the file had one name when bob acquired it
		c.takes(c.agent("eve", Options{}), "later")
		require.NoError(t, set.Err())
	})
}

// The holder of a folder and the holder of another name of a file in it exclude each
// other, regardless of when the link, the file or the replaced file was created.
func TestTrap_T131_AFolderCoversALinkToAFileInIt(t *testing.T) {
	links := Options{HardLinks: true}
	withCheckout(t, []string{"d/sub/x", "e/", "f/y", "g/"}, func(t *testing.T, c *checkout) {
		at := func(name string) string { return filepath.Join(c.root, name) }
		replace := func(name string) {
			require.NoError(t, os.WriteFile(at("new"), []byte("new"), 0o644))
			require.NoError(t, os.Rename(at("new"), at(name)))
		}
		ann, bob := c.agent("ann", links), c.agent("bob", links)
		release := func(set *multilease.Set) {
			require.NoError(t, set.Err())
			require.NoError(t, set.Release(t.Context()))
		}
		require.NoError(t, os.Link(at("d/sub/x"), at("e/y")))

		folder := c.takes(ann, "d/")
		c.refused(bob, "e/y")
		c.refused(bob, "e/")
		c.refused(bob, ".")
		release(folder)

		file := c.takes(bob, "e/y")
		c.refused(ann, "d/")
		c.refused(ann, "d/sub")
		c.refused(ann, "d/sub/x")
		c.refused(ann, "e/")
		c.takes(ann, "f/")
		replace("e/y") // the recommended way to write
		require.NoError(t, os.Link(at("e/y"), at("g/later")))
		c.refused(ann, "g/")
		release(file)

		folder = c.takes(ann, "d/", "new/")
		replace("d/sub/x")
		require.NoError(t, os.Mkdir(at("new"), 0o755))
		require.NoError(t, os.WriteFile(at("new/z"), nil, 0o644))
		require.NoError(t, os.Link(at("d/sub/x"), at("e/replaced")))
		require.NoError(t, os.Link(at("new/z"), at("e/created")))
		c.refused(bob, "e/replaced")
		c.refused(bob, "e/created")
		c.refused(bob, "e/")
		release(folder)

		set := c.takes(ann, "d/", "e/") // the set covers all names of the file
		require.Subset(t, names(set), []string{"app:/d", "app:/e"})
		release(set)

		waiting := c.waits(bob, "e/replaced")
		release(<-waiting)
	})
}

// Two checkouts on one machine may share files by hard links, such as those that package managers make.
func TestLinksBetweenCheckoutsExcludeEachOther(t *testing.T) {
	withCheckout(t, []string{"one/d/x", "two/e/", "two/y"}, func(t *testing.T, c *checkout) {
		at := func(name string) string { return filepath.Join(c.root, name) }
		ann := c.agent("ann", Options{HardLinks: true, Root: at("one")})
		bob := c.agent("bob", Options{HardLinks: true, Root: at("two")})
		require.NoError(t, c.takes(ann, "d/x").Err())
		require.NoError(t, os.Link(at("one/d/x"), at("two/e/x"))) // although the file had one name when ann acquired it
		c.refused(bob, "e/x")
		c.refused(bob, "e/")
		c.takes(bob, "y")
	})
}

// Hard links in a folder add leases to the set, so their number is bounded.
func TestAFolderWithTooManyLinksIsRefused(t *testing.T) {
	withCheckout(t, []string{"a/", "b/", "c/one"}, func(t *testing.T, c *checkout) {
		for i := range maxLinked/2 + 1 {
			name := filepath.Join(c.root, "a", strconv.Itoa(i))
			require.NoError(t, os.WriteFile(name, nil, 0o644))
			require.NoError(t, os.Link(name, filepath.Join(c.root, "b", strconv.Itoa(i))))
		}
		ann := c.agent("ann", Options{HardLinks: true})
		_, err := ann.TryAcquire(t.Context(), []string{"a/"})
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, "256")
		c.takes(ann, "a/7")
		c.takes(ann, "c/")
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		_, err = ann.TryAcquire(ctx, []string{"b/"})
		require.ErrorIs(t, err, enough)
	})
}

// If a symbolic link changes while Acquire waits, Acquire leases the file to which the link then leads.
func TestAPathThatChangesIsResolvedAgain(t *testing.T) {
	withCheckout(t, []string{"v1", "v2"}, func(t *testing.T, c *checkout) {
		link := filepath.Join(c.root, "current")
		require.NoError(t, os.Symlink("v1", link))
		first := c.takes(c.agent("ann", Options{}), "current")
		waiting := c.waits(c.agent("bob", Options{}), "current")
		require.NoError(t, os.Remove(link))
		require.NoError(t, os.Symlink("v2", link))
		require.NoError(t, first.Release(t.Context()))
		require.Equal(t, []string{"app:/v2"}, names(<-waiting))
		c.takes(c.agent("eve", Options{}), "v1")
	})
}

func TestDoReleasesAndReportsALoss(t *testing.T) {
	withCheckout(t, []string{"a", "b"}, func(t *testing.T, c *checkout) {
		ann, bob := c.agent("ann", Options{}), c.agent("bob", Options{})
		failed := errors.New("full disk")
		err := ann.Do(t.Context(), []string{"a"}, func(ctx context.Context, set *multilease.Set) error {
			require.NoError(t, set.Release(ctx))
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			c.refused(bob, "a") // until the work is over
			return failed
		})
		require.ErrorIs(t, err, failed)
		err = bob.Do(t.Context(), []string{"a"}, func(ctx context.Context, set *multilease.Set) error {
			_, err := ann.manager.Break(t.Context(), "app:/a", leasing.BreakOptions{Immediate: true})
			require.NoError(t, err)
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, leasing.ErrLost)
	})
}

// The loss of an early lease ends the wait for a later lease.
func TestALossWhileWaitingEndsTheWait(t *testing.T) {
	withCheckout(t, []string{"a", "b"}, func(t *testing.T, c *checkout) {
		ann, bob := c.agent("ann", Options{}), c.agent("bob", Options{})
		c.takes(bob, "b")
		result := make(chan error, 1)
		go func() {
			_, err := ann.Acquire(c.Context(), []string{"a", "b"})
			result <- err
		}()
		time.Sleep(time.Second)
		_, err := bob.manager.Break(t.Context(), "app:/a", leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		require.ErrorIs(t, <-result, leasing.ErrLost)
	})
}

func TestACancelledAcquireKeepsNothing(t *testing.T) {
	withCheckout(t, []string{"a", "src/b"}, func(t *testing.T, c *checkout) {
		ann, bob := c.agent("ann", Options{}), c.agent("bob", Options{})
		for _, theirs := range []string{"src/b", "src/"} {
			set := c.takes(bob, theirs)
			ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
			_, err := ann.Acquire(ctx, []string{"a", "src/b"})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
			c.takes(c.agent("eve "+theirs, Options{}), "a")
			require.NoError(t, set.Release(t.Context()))
			for r, err := range bob.manager.List(t.Context(), leasing.ListOptions{HeldOnly: true}) {
				require.NoError(t, err)
				require.Contains(t, r.Owner, "eve")
				_, err = bob.manager.Break(t.Context(), r.Name, leasing.BreakOptions{Immediate: true})
				require.NoError(t, err)
			}
		}
	})
}

// lagging is a backend whose reads may lag.
type lagging struct{ abstractions.Provider }

func (l lagging) Capabilities() abstractions.Capabilities {
	c := l.Provider.Capabilities()
	c.ReadsMayLag = true
	return c
}

func TestABackendWhoseReadsLagLeasesFilesAlone(t *testing.T) {
	m := leasingtest.NewManagerOn(t, lagging{memlease.New(memlease.Options{})}, leasing.Options{})
	tree, err := New(m, Options{Root: folderWith(t, "src/a"), Name: "app"})
	require.NoError(t, err)
	for _, path := range []string{"src", "new/", "."} {
		_, err = tree.TryAcquire(t.Context(), []string{path})
		require.ErrorIs(t, err, leasing.ErrUnsupported, path)
	}
	set, err := tree.TryAcquire(t.Context(), []string{"src/a", "src/new"})
	require.NoError(t, err)
	require.NoError(t, set.Release(t.Context()))
}

func TestStateFolder(t *testing.T) {
	root := folderWith(t)
	for range 2 {
		folder, err := StateFolder(root)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(root, ".leasing"), folder)
		text, err := os.ReadFile(filepath.Join(folder, ".gitignore"))
		require.NoError(t, err)
		require.Equal(t, "*\n", string(text))
	}
	_, err := StateFolder(filepath.Join(root, "none"))
	require.ErrorIs(t, err, leasing.ErrNotSetUp)
}

// The application's TTLPolicy runs inside an acquire, and may panic. Here it panics while the first path is held: once
// without a wait, and once after a wait for the holder of the folder.
func TestTrap_T98_AnAcquireOfPathsThatPanicsKeepsWhatItHad(t *testing.T) {
	withCheckout(t, []string{"src/a", "src/b"}, func(t *testing.T, c *checkout) {
		m := leasingtest.NewManagerOn(t, c.provider, leasing.Options{TTL: 10 * time.Second, TTLPolicy: func(r leasing.TTLRequest) time.Duration {
			if strings.HasSuffix(r.Name, "/b") {
				panic("no such class")
			}
			return r.TTL
		}})
		one, err := New(m, Options{Name: "app", Root: c.root})
		require.NoError(t, err)
		other := c.agent("other", Options{})
		for _, wait := range []time.Duration{0, time.Minute} {
			set := c.takes(other, "src")
			go func() {
				time.Sleep(wait)
				_ = set.Release(context.Background())
			}()
			if wait == 0 {
				synctest.Wait()
			}
			require.PanicsWithValue(t, "no such class", func() { _, _ = one.Acquire(t.Context(), []string{"src/a", "src/b"}) })
		}
		for r, err := range m.List(t.Context(), leasing.ListOptions{HeldOnly: true}) {
			require.NoError(t, err)
			require.Fail(t, "still held", r.Name)
		}
	})
}

// The parts of a tree's name are not folders: leases with these names are unrelated.
func TestATreeWhoseNameHasPartsIsInNobodysWay(t *testing.T) {
	withCheckout(t, []string{"a"}, func(t *testing.T, c *checkout) {
		m := leasingtest.NewManagerOn(t, c.provider, leasing.Options{})
		leader, err := m.TryAcquire(t.Context(), "team")
		require.NoError(t, err)
		tree, err := New(m, Options{Root: c.root, Name: "team/app"})
		require.NoError(t, err)
		require.NoError(t, c.takes(tree, "a").Release(t.Context()))
		require.NoError(t, leader.Release(t.Context()))
	})
}

// A path whose lease would have too long a name is refused, and so is a hard link to a file at such a path.
func TestALongPathIsRefusedWithItsBound(t *testing.T) {
	long := strings.Repeat("a/", 255) + "file" // 514 bytes
	withCheckout(t, []string{long, "e/"}, func(t *testing.T, c *checkout) {
		ann := c.agent("ann", Options{HardLinks: true})
		_, err := ann.TryAcquire(t.Context(), []string{long})
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, "a shorter path")
		require.ErrorContains(t, err, "1 to 512 bytes")
		require.ErrorContains(t, err, "a/a/a/")
		require.NoError(t, os.Link(filepath.Join(c.root, long), filepath.Join(c.root, "e/short")))
		_, err = ann.TryAcquire(t.Context(), []string{"e/short"})
		require.ErrorIs(t, err, leasing.ErrInvalid)
	})
}

// A lease belongs to a name, as documented, since no file system reports a rename.
func TestTheHolderOfARenamedFolderHasTheOldName(t *testing.T) {
	withCheckout(t, []string{"src/old/a.go"}, func(t *testing.T, c *checkout) {
		ann, bob := c.agent("ann", Options{}), c.agent("bob", Options{})
		both := c.takes(ann, "src/old/", "src/new/")
		require.NoError(t, os.Rename(filepath.Join(c.root, "src/old"), filepath.Join(c.root, "src/new")))
		c.refused(bob, "src/new/a.go")
		c.refused(bob, "src/old/a.go")
		require.NoError(t, both.Err())
	})
}
