//go:build unix

package main

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/integration/scenarios/runner"
)

// The check finds edits that two agents make at the same time, and edits that are half written.
func TestFilesThatWereNotLeasedAreFound(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, makeTree(root))
	path := filepath.Join(root, files[0])
	first := fmt.Appendf(nil, "a/1 %08x\n", crc32.ChecksumIEEE(nil))
	second := fmt.Appendf(first[:len(first):len(first)], "a/2 %08x\n", crc32.ChecksumIEEE(first))
	reported := func(edits ...string) (all []runner.Report) {
		for _, edit := range edits {
			all = append(all, runner.Report{Edit: edit, Paths: files[:1]})
		}
		return all
	}
	require.NoError(t, os.WriteFile(path, second, 0o600))
	lines, err := checkFiles(root, reported("a/1", "a/2"))
	require.NoError(t, err)
	require.Equal(t, 2, lines)

	_, err = checkFiles(root, reported("a/1", "b/1", "a/2"))
	require.ErrorContains(t, err, "reported were", "b/1 is lost")

	require.NoError(t, os.WriteFile(path, second[:len(second)-3], 0o600))
	_, err = checkFiles(root, nil)
	require.ErrorContains(t, err, "torn")
}
