package main

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing/integration/scenarios/runner"
)

// files of the tree. Each line of a file is an edit: its ID, and a checksum of the file up to that line.
var files = []string{"api/http.go", "api/rpc.go", "store/db.go", "store/log.go", "web/form.go", "web/page.go"}

// link is another path of the folder web.
const link = "www"

// makeTree makes the files in a folder.
func makeTree(root string) (err error) {
	for _, file := range files {
		path := filepath.Join(root, file)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644))
	}
	return errors.Join(err, os.Symlink("web", filepath.Join(root, link)))
}

// checkFiles compares the files with the reported edits, and returns the number of lines in all files.
func checkFiles(root string, reported []runner.Report) (int, error) {
	var want, got []string
	for _, report := range reported {
		for _, path := range report.Paths {
			want = append(want, report.Edit+" in "+strings.Replace(path, link, "web", 1))
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
