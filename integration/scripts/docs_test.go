package scripts_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests that documents name, in `backticks`, exist.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	named, test := regexp.MustCompile("`(Test\\w+)`"), regexp.MustCompile(`(?m)^func (Test\w+)\(t `)
	exist, wanted := map[string]bool{}, map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		docs := strings.HasPrefix(path, filepath.Join(root, "docs")) && strings.HasSuffix(path, ".md") || path == filepath.Join(root, "README.md")
		if err != nil || !docs && !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range test.FindAllSubmatch(text, -1) {
			exist[string(match[1])] = true
		}
		if docs {
			for _, match := range named.FindAllSubmatch(text, -1) {
				wanted[string(match[1])] = path
			}
		}
		return err
	}))
	require.Greater(t, len(wanted), 30)
	for name, document := range wanted {
		require.True(t, exist[name], "%s, in %s", name, document)
	}
}
