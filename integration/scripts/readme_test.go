package scripts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const maxWords = 750 // of the README: one screen or two

// The README's first program is samples/quickstart, so it compiles.
func TestTheFirstProgramOfTheREADMECompiles(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(strings.Fields(string(readme))), maxWords)
	_, program, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	program, _, _ = strings.Cut(program, "```")
	sample, err := os.ReadFile(filepath.Join(root, "samples", "quickstart", "main.go"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(program, "package main\n"), "the program is complete")
	require.True(t, strings.HasSuffix(string(sample), "\n"+program))
}
