package main

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each mutant applies to the present code, and names the promise that it breaks, or the reason why it breaks
// none of the promises.
func TestEachMutantApplies(t *testing.T) {
	list, err := parse(listText)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(list), 150)
	for _, m := range list {
		t.Run(m.name, func(t *testing.T) {
			require.True(t, slices.Contains(classes, m.class), "a class of the table: %q", m.class)
			require.NotEqual(t, m.breaks == "", m.equivalent == "", "says what it breaks, or why it breaks nothing")
			changed, err := m.files("../..")
			require.NoError(t, err)
			require.NotEmpty(t, changed)
			for file, text := range changed {
				if strings.HasSuffix(file, ".go") {
					_, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
					require.NoError(t, err)
				}
			}
		})
	}
}

func TestAnEditNeedsItsLinesOnce(t *testing.T) {
	const text = "a\n\tb\nc\n  b\n"
	changed, err := edit{file: "f", old: []string{"b", "c"}, new: []string{"x"}}.apply(text)
	require.NoError(t, err)
	require.Equal(t, "a\nx\n  b\n", changed)
	_, err = edit{file: "f", old: []string{"b"}}.apply(text)
	require.ErrorContains(t, err, "f has the old lines twice: lines 2 and 4")
	_, err = edit{file: "f", old: []string{"c", "a"}}.apply(text)
	require.ErrorContains(t, err, "f has no such lines")
	_, err = edit{file: "f", new: []string{"c"}}.apply(text)
	require.Error(t, err, "nothing to replace")
}
