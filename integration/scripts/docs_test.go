package scripts_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// Every test that a document names in `backticks` exists.
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

const maxDocsWords = 26_000 // of the hand-written pages under docs

var (
	written    = regexp.MustCompile(`(?s)<!-- (\S+) -->\n.*?<!-- end of \S+ -->\n`)
	indented   = regexp.MustCompile(`(?m)^(    |\t).*$`)
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	pattern    = regexp.MustCompile(`-run[ =]('[^']*'|\S+)`)
	separator  = regexp.MustCompile(`^\|(-+\|)+\n?$`)
)

// handWritten returns the pages under docs that no program writes.
func handWritten(t *testing.T) map[string]string {
	t.Helper()
	pages := documents(t)
	maps.DeleteFunc(pages, func(path, _ string) bool {
		return !strings.HasPrefix(path, "docs/") || path == "docs/mutants.md"
	})
	require.Greater(t, len(pages), 25)
	return pages
}

// words counts the words of a page outside of generated tables, link targets and code.
func words(page string) (n int) {
	for _, other := range []*regexp.Regexp{written, code, indented, linkTarget} {
		page = other.ReplaceAllString(page, " ")
	}
	for _, word := range strings.Fields(page) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// The hand-written pages stay short enough to be read. A page that grows has to give up words elsewhere.
func TestTheDocumentationIsShort(t *testing.T) {
	require.Equal(t, 4, words("Two [words](a/b.md#c), `code` | and\n\n    indented\n\n```go\nfenced\n```\n<!-- x -->\n\n| a |\n\n<!-- end of x -->\n24 – |---|\n"))
	all, pages := 0, handWritten(t)
	for _, path := range slices.Sorted(maps.Keys(pages)) {
		n := words(pages[path])
		t.Logf("%5d %s", n, path)
		all += n
	}
	require.LessOrEqual(t, all, maxDocsWords, "words of docs; go test -v prints those of each page")
}

// Each row of a table has as many cells as its header, and no blank line divides the table.
func TestTheTablesOfTheDocumentationAreWhole(t *testing.T) {
	inCode := regexp.MustCompile("`[^`]*`")
	for path, text := range handWritten(t) {
		head, cells := 0, 0
		for line := range strings.Lines(regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "")) {
			if !strings.HasPrefix(line, "|") {
				head, cells = 0, 0
				continue
			}
			n := strings.Count(inCode.ReplaceAllString(line, ""), "|")
			switch head++; head {
			case 1:
				cells = n
			case 2:
				require.Regexp(t, separator, line, path)
			}
			require.Equal(t, cells, n, "%s: %s", path, line)
		}
	}
}

// Each -run pattern in a command of the documentation selects a test or an example of the repository.
func TestEachPatternOfTheDocumentationSelectsATest(t *testing.T) {
	var tests []string
	function := regexp.MustCompile(`(?m)^func ((?:Test|Example)\w+)\(`)
	walk(t, func(_, text string) {
		for _, found := range function.FindAllStringSubmatch(text, -1) {
			tests = append(tests, found[1])
		}
	})
	checked := 0
	for path, text := range documents(t) {
		for _, found := range pattern.FindAllStringSubmatch(text, -1) {
			if found[1] = strings.Trim(found[1], "'`"); found[1] == "^$" || found[1] == "XXX" {
				continue // benchmarks alone
			}
			for alternative := range strings.SplitSeq(found[1], "|") {
				require.True(t, slices.ContainsFunc(tests, regexp.MustCompile(alternative).MatchString), "%s: -run %s", path, alternative)
				checked++
			}
		}
	}
	require.Greater(t, checked, 5)
}
