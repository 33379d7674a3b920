package filelock

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
	"github.com/distributedleasing/leasing/recipes/multilease"
)

// Options describe a tree.
type Options struct {
	// Root is the folder that contains the files. It must exist. Required.
	Root string
	// Name is the name of the tree, the same on every machine. Leases are named after
	// it and the path below Root. It must not contain a colon. Required.
	Name string
	// FoldCase ignores case even if Root's file system appears to be case-sensitive.
	// Set it on all machines if the file system of one is case-insensitive.
	FoldCase bool
	// HardLinks makes all names of a file below Root exclude each other. Acquire then leases each
	// file by its inode too, and also the other names of a file that has several names. A folder's
	// lease does the same for each file below that has several names. The processes of one machine
	// must all set it; an inode number means a different file on another machine. At most 256
	// leases are added; more are refused with an error that matches leasing.ErrInvalid. New refuses
	// it on systems that do not report inodes, such as Windows.
	HardLinks bool
}

// Tree leases the files and folders below a root. It is safe for concurrent use.
type Tree struct {
	manager       *leasing.Manager
	options       Options
	root          string // resolved
	leasesFolders bool   // whether folders can be leased
}

// New makes a tree. It sends no request.
func New(manager *leasing.Manager, options Options) (*Tree, error) {
	if manager == nil {
		return nil, &leasing.InvalidError{Field: "manager", Value: nil, Want: "a leasing.Manager"}
	}
	if err := leasing.ValidateName(options.Name); err != nil || strings.Contains(options.Name, ":") {
		return nil, &leasing.InvalidError{Field: "Options.Name", Value: options.Name, Want: "a name of a lease, without a colon"}
	}
	root, err := filepath.Abs(options.Root)
	var info fs.FileInfo
	if err == nil {
		root, info, err = resolve(root)
	}
	if err != nil || info == nil || !info.IsDir() || options.Root == "" {
		return nil, &leasing.InvalidError{Field: "Options.Root", Value: options.Root, Want: "a folder that exists"}
	}
	if one, links := identity(info); options.HardLinks && (one.inode == 0 || links == 0) {
		return nil, &leasing.InvalidError{Field: "Options.HardLinks", Value: true, Want: "false: this system shows no inodes"}
	}
	options.FoldCase = options.FoldCase || foldsCase(root)
	c := manager.Capabilities()
	return &Tree{manager: manager, options: options, root: root, leasesFolders: !c.ReadsMayLag}, nil
}

// LeaseName returns the name of a path's lease. multilease.Set.Lease finds the lease by that name,
// unless another path of the set covers the path.
func (t *Tree) LeaseName(path string) (string, error) {
	found, _, err := t.target(path)
	return found.name, err
}

// Acquire waits for the leases of paths as Manager.Acquire does for one, with the
// options of Manager.With for each. WaitLimit and NoAutoRenew are refused; bound the wait by
// ctx. A path that ends in a slash, or leads to a folder, means a folder.
//
// If it fails it holds nothing, except leases whose release got no answer.
func (t *Tree) Acquire(ctx context.Context, paths []string) (*multilease.Set, error) {
	return t.acquire(ctx, paths, false)
}

// TryAcquire is like Acquire, but does not wait. The error matches leasing.ErrHeld if
// another holder has one of the files, a folder above one, or a file or folder below a requested
// folder.
func (t *Tree) TryAcquire(ctx context.Context, paths []string) (*multilease.Set, error) {
	return t.acquire(ctx, paths, true)
}

// Do acquires paths, runs fn with a context that ends when a lease is lost or ctx
// ends, and releases them when fn has returned, or has panicked. It returns fn's
// error, joined with those of lost leases and of releases.
func (t *Tree) Do(ctx context.Context, paths []string, fn func(ctx context.Context, set *multilease.Set) error) error {
	if fn == nil {
		return &leasing.InvalidError{Field: "fn", Value: nil, Want: "a function"}
	}
	set, err := t.Acquire(ctx, paths)
	if err != nil {
		return err
	}
	return multilease.Under(ctx, set, fn)
}

// target is the file or folder that a path leads to.
type target struct {
	name   string
	folder bool // there may be files below it
}

// parents returns the names of the folders above a target, from the root down.
func (t target) parents() (names []string) {
	for i, tree := 0, strings.IndexByte(t.name, ':'); i < len(t.name); i++ {
		if t.name[i] == '/' && i > tree {
			names = append(names, t.name[:i])
		}
	}
	return names
}

// target resolves a path, and returns the place that it leads to.
func (t *Tree) target(path string) (found target, place string, err error) {
	invalid := func(want string) error { return &leasing.InvalidError{Field: "path", Value: path, Want: want} }
	if path == "" || strings.ContainsRune(path, 0) {
		return target{}, "", invalid("a path without NUL")
	}
	resolved := path
	if !filepath.IsAbs(resolved) {
		resolved = t.root + string(filepath.Separator) + resolved // Join would remove .. before links are followed
	}
	resolved, info, err := resolve(resolved)
	if err != nil {
		return target{}, "", fmt.Errorf("%w: %w", invalid("a path that can be resolved"), err)
	}
	found, err = t.targetAt(path, resolved, info)
	if err == nil && !t.leasesFolders && (asFolder(path) || info != nil && info.IsDir()) {
		err = fmt.Errorf("%w: leases of folders, on %s", leasing.ErrUnsupported, t.manager.Capabilities().Provider)
	}
	return found, resolved, err
}

// targetAt returns the target at the place to which a path leads. info is nil if there is no file.
func (t *Tree) targetAt(path, place string, info fs.FileInfo) (target, error) {
	invalid := func(want string) error { return &leasing.InvalidError{Field: "path", Value: path, Want: want} }
	below, is := strings.CutPrefix(place, strings.TrimSuffix(t.root, string(filepath.Separator)))
	below = filepath.ToSlash(below)
	if !is || below != "" && below[0] != '/' {
		return target{}, invalid("one in " + t.root + "; it leads to " + place)
	}
	below = strings.TrimSuffix(below, "/")
	if t.options.FoldCase {
		below = fold(below)
	}
	found := target{name: t.options.Name + ":" + escape(below), folder: t.leasesFolders && (info == nil || info.IsDir())}
	if err := t.manager.Capabilities().ValidateName(found.name); err != nil {
		return target{}, fmt.Errorf("%w: %w", invalid("a shorter path"), err)
	}
	return found, nil
}

// targets returns the targets of paths, in the order of their names, without the targets that
// another target covers.
func (t *Tree) targets(ctx context.Context, paths []string) ([]target, error) {
	if len(paths) == 0 {
		return nil, &leasing.InvalidError{Field: "paths", Value: paths, Want: "at least one path"}
	}
	byName, places := map[string]target{}, make([]string, len(paths))
	for i, path := range paths {
		found, place, err := t.target(path)
		if err != nil {
			return nil, err
		}
		byName[found.name], places[i] = found, place
	}
	if t.options.HardLinks {
		if err := t.withLinks(ctx, places, byName); err != nil {
			return nil, err
		}
	}
	var all []target
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		one := byName[name]
		if !slices.ContainsFunc(one.parents(), func(folder string) bool { _, has := byName[folder]; return has }) {
			all = append(all, one)
		}
	}
	return all, nil
}

func (t *Tree) acquire(ctx context.Context, paths []string, once bool) (*multilease.Set, error) {
	a, options := attempt{Tree: t, once: once}, t.manager.AcquireOptions()
	_, hasKey := options.Metadata[queueOnly]
	switch {
	case hasKey:
		return nil, &leasing.InvalidError{Field: "AcquireOptions.Metadata", Value: queueOnly, Want: "other keys: a lease with this one covers nothing"}
	case options.WaitLimit != 0:
		return nil, &leasing.InvalidError{Field: "AcquireOptions.WaitLimit", Value: options.WaitLimit, Want: "0: bound the wait by the context"}
	case options.NoAutoRenew:
		return nil, &leasing.InvalidError{Field: "AcquireOptions.NoAutoRenew", Value: true, Want: "false: leases are renewed while others are waited for"}
	}
	for {
		wanted, err := t.targets(ctx, paths)
		if err != nil {
			return nil, err
		}
		set, err := a.acquire(ctx, wanted)
		if err != nil {
			return nil, err
		}
		again, err := t.targets(ctx, paths)
		if err == nil && slices.Equal(again, wanted) {
			return set, nil
		}
		if err2 := set.Release(ctx); err != nil || err2 != nil {
			return nil, recipe.Join(err, err2)
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
	}
}
