package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/distributedleasing/leasing"
)

// maxLinked bounds the leases that hard links add to a set.
const maxLinked = 256

// withLinks adds the leases that Options.HardLinks requires: one for the inode of each
// file at or below the places, if the file has another name or is a place itself, and
// one for each other name of these files below the root.
//
// A lease of the inode alone would miss files that are created, replaced or linked in a folder while
// the folder is held. The next Acquire of another name finds such files when it walks the tree.
func (t *Tree) withLinks(ctx context.Context, places []string, byName map[string]target) error {
	files, linked := map[file]bool{}, false
	for _, place := range places {
		err := walk(ctx, place, func(path string, info fs.FileInfo) error {
			if one, links := identity(info); links > 1 || path == place {
				files[one], linked = true, linked || links > 1
			}
			return checkLinkCount(len(files))
		})
		if err != nil {
			return err
		}
	}
	for one := range files {
		name := fmt.Sprintf("%s:#%x.%x", t.options.Name, one.device, one.inode)
		byName[name] = target{name: name}
	}
	if !linked {
		return nil
	}
	added := len(files)
	return walk(ctx, t.root, func(path string, info fs.FileInfo) error {
		if one, _ := identity(info); !files[one] {
			return nil
		}
		found, err := t.targetAt(path, path, info)
		if _, has := byName[found.name]; err != nil || has {
			return err
		}
		byName[found.name] = found
		added++
		return checkLinkCount(added)
	})
}

func checkLinkCount(added int) error {
	if added > maxLinked {
		return &leasing.InvalidError{Field: "paths", Value: "many hard links", Want: fmt.Sprintf("at most %d names and inodes of files that have several names", maxLinked)}
	}
	return nil
}

// walk calls the function each for every file at or below place, which need not exist. It follows
// no symbolic links, and skips files that disappear during the walk.
func walk(ctx context.Context, place string, each func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(place, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case entry.IsDir() || entry.Type()&fs.ModeSymlink != 0:
			return nil
		}
		info, err := entry.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		return each(path, info)
	})
}
