package leasing_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's first example is what Example runs, so it compiles.
func TestTheFirstExampleOfTheREADMEIsTheOneThatRuns(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, program, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	program, _, _ = strings.Cut(program, "```")
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)

	require.True(t, strings.HasPrefix(program, "package main\n"), "it is complete")
	head, functions, found := strings.Cut(program, "func run(")
	require.True(t, found)
	require.Contains(t, string(example), "func run("+functions)
	for line := range strings.Lines(head) {
		if strings.HasPrefix(line, "\t\"") || strings.HasPrefix(line, "\tmemlease ") {
			require.Contains(t, string(example), line, "an import")
		}
	}
	require.Contains(t, head, "func main() {\n\tif err := run(context.Background()); err != nil {\n\t\tlog.Fatal(err)\n\t}\n}\n")
}
