package scripts_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var person = regexp.MustCompile(`(?i)\b(somebody|nobody|anybody|someone)\b`)

// Help, errors and logs name the holder, the waiter or the process, and never an unnamed person.
func TestTextsNameTheirSubject(t *testing.T) {
	require.Equal(t, []string{"is held by somebody", "nobody waits here"},
		mentionsPerson(t, "package p\nvar a, b = `is held by somebody`, f(\"nobody waits here\", \"nobody else\", \"user: root\")\n"))
	walk(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") || !person.MatchString(text) {
			return
		}
		for _, found := range mentionsPerson(t, text) {
			t.Errorf("%s: %q", path, found)
		}
	})
}

// mentionsPerson returns the string literals of three words or more that mention an unnamed
// person.
func mentionsPerson(t *testing.T, source string) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			text, err := strconv.Unquote(l.Value)
			require.NoError(t, err)
			if len(strings.Fields(text)) >= 3 && person.MatchString(text) {
				found = append(found, text)
			}
		}
		return true
	})
	return found
}
