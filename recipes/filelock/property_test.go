package filelock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// resolve finds the file that the system opens, or none if the system does not find a file.
func TestResolveGoesWhereTheSystemGoes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		root := t.TempDir() + "/1/2/3/4/5" // deep enough that no path leaves the temporary folder
		require.NoError(r, os.MkdirAll(root, 0o755))
		part := rapid.SampledFrom([]string{"a", "b", "c", "..", ".", ""})
		paths := rapid.SliceOfN(rapid.SliceOfN(part, 1, 5), 1, 12).Draw(r, "paths")
		for i, parts := range paths {
			path := root + "/" + strings.Join(parts, "/")
			switch {
			case i%3 == 0:
				_ = os.MkdirAll(path, 0o755)
			case i%3 == 1:
				_ = os.Symlink(strings.Join(paths[(i+5)%len(paths)], "/"), path)
			default:
				_ = os.WriteFile(path, nil, 0o644)
			}
		}
		for _, parts := range paths {
			path := root + "/" + strings.Join(parts, "/")
			real, errReal := filepath.EvalSymlinks(path)
			at, info, err := resolve(path)
			if errReal == nil {
				if err != nil {
					r.Fatalf("%s: %v, where the system goes to %s", path, err, real)
				}
				wanted, _ := os.Stat(path)
				if err == nil && wanted != nil && (info == nil || !os.SameFile(wanted, info)) {
					r.Fatalf("%s leads to %s, where the system goes to %s", path, at, real)
				}
				continue
			}
			if err == nil && info != nil {
				r.Fatalf("%s leads to %s, where the system says %v", path, at, errReal)
			}
		}
	})
}

// Hostile names become valid lease names, and different names stay different.
func FuzzEscape(f *testing.F) {
	for _, text := range []string{"a", "%", "%25", "\xff", "a\x01", "ä", "\u0085", "日本", "a%20b", "\xe4"} {
		f.Add(text, text+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		one, other := escape(a), escape(b)
		require.True(t, utf8.ValidString(one))
		if a != "" && len(one) <= leasing.MaxNameBytes {
			require.NoError(t, leasing.ValidateName(one))
		}
		require.Equal(t, a == b, one == other)
		require.Equal(t, strings.Count(a, "/"), strings.Count(one, "/"))
		require.Equal(t, fold(one), fold(fold(one)))
	})
}

// Agents acquire random paths. No two of them ever hold overlapping paths, and all of them make
// progress.
func TestNoTwoHoldWhatOverlaps(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		agents := rapid.IntRange(2, 8).Draw(r, "agents")
		path := rapid.SampledFrom([]string{".", "a", "a/", "a/b", "a/b/c", "a/b/d", "a/e", "f", "f/g", "new/", "new/x"})
		type job struct {
			paths []string
			pause time.Duration
		}
		jobs := make([][]job, agents)
		for i := range jobs {
			for range rapid.IntRange(1, 5).Draw(r, "jobs") {
				jobs[i] = append(jobs[i], job{rapid.SliceOfN(path, 1, 3).Draw(r, "paths"), time.Duration(rapid.IntRange(0, 3000).Draw(r, "pause")) * time.Millisecond})
			}
		}
		delay := time.Duration(rapid.IntRange(0, 20).Draw(r, "delay")) * time.Millisecond
		root := folderWith(t, "a/b/c", "a/b/d", "a/e", "f/g")
		synctest.Test(t, func(t *testing.T) {
			c := &checkout{t, root, leasingtest.NewProvider()}
			c.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
				time.Sleep(delay * time.Duration(len(call.Name)%3))
				return apply()
			})
			var mu sync.Mutex
			working := map[int][]string{}
			var all sync.WaitGroup
			for i, own := range jobs {
				tree := c.agent(fmt.Sprint(i), Options{})
				all.Go(func() {
					for _, job := range own {
						ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
						set, err := tree.Acquire(ctx, job.paths)
						cancel()
						if err != nil {
							t.Errorf("agent %d, %v: %v", i, job.paths, err)
							return
						}
						mu.Lock()
						for other, theirs := range working {
							for _, a := range names(set) {
								for _, b := range theirs {
									if a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") {
										t.Errorf("%d has %s while %d has %s", i, a, other, b)
									}
								}
							}
						}
						working[i] = names(set)
						mu.Unlock()
						time.Sleep(job.pause)
						mu.Lock()
						delete(working, i)
						mu.Unlock()
						if err := set.Release(t.Context()); err != nil {
							t.Errorf("agent %d: %v", i, err)
						}
					}
				})
			}
			all.Wait()
		})
	})
}
