package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// files of the tree. Each line of a file is an edit: its ID, and a checksum of the file up to that line.
var files = []string{"api/http.go", "api/rpc.go", "store/db.go", "store/log.go", "web/form.go", "web/page.go"}

// link is another way to the folder web.
const link = "www"

func makeTree() (root string, err error) {
	if root, err = os.MkdirTemp("", "leasing-tree-"); err != nil {
		return "", err
	}
	for _, file := range files {
		path := filepath.Join(root, file)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644))
	}
	return root, errors.Join(err, os.Symlink("web", filepath.Join(root, link)))
}

// edit adds a line to each of some files. It writes new files beside them, in steps that take time,
// calls meet, unless it is nil, and renames all of them unless ctx has ended.
//
// A process that is paused between the look at ctx and the renaming is late all the same. No lease
// helps against that, and a file system checks no token: see package fencing.
func edit(ctx context.Context, root, id string, paths []string, meet func(context.Context)) error {
	beside := func(path string) string {
		return filepath.Join(root, path) + "." + strings.ReplaceAll(id, "/", "-") + "~"
	}
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "%s %08x\n", id, crc32.ChecksumIEEE(text))
		for part := 1; part <= 3; part++ {
			if err := os.WriteFile(beside(path), text[:len(text)*part/3], 0o644); err != nil {
				return err
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	if meet != nil {
		meet(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, path := range paths {
		if err := os.Rename(beside(path), filepath.Join(root, path)); err != nil {
			return err
		}
	}
	return nil
}

// checkFiles compares the files with the edits that were reported, each as "ID path path". It returns
// the number of their lines.
func checkFiles(root string, reported []string) (int, error) {
	var want, got []string
	for _, report := range reported {
		words := strings.Fields(report)
		for _, path := range words[1:] {
			want = append(want, words[0]+" in "+strings.Replace(path, link, "web", 1))
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return 0, err
		}
		upTo := 0
		for line := range strings.Lines(string(text)) {
			id, sum, _ := strings.Cut(line, " ")
			if sum != fmt.Sprintf("%08x\n", crc32.ChecksumIEEE(text[:upTo])) {
				return 0, fmt.Errorf("an edit of %s is torn: %q", file, line)
			}
			got = append(got, id+" in "+file)
			upTo += len(line)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(slices.Compact(want), got) { // each edit is made once
		return 0, fmt.Errorf("the files have the edits %v, and reported were %v", got, want)
	}
	return len(got), nil
}
