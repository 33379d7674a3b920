package scripts_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

var (
	root     = filepath.Join("..", "..")
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	code     = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	makes    = regexp.MustCompile(`\bmake ([a-z][a-z-]+)`)
	script   = regexp.MustCompile(`[^\w/](scripts/[a-z][a-z./-]*[a-z])\b`)
	goPath   = regexp.MustCompile(`\bgo (?:run|test|vet|build) [^|;\n]*?(\./[\w./-]+)`)
	inFolder = regexp.MustCompile(`-C ([\w./-]+)`)
	target   = regexp.MustCompile(`(?m)^([a-z][a-z-]+):`)
)

// documents returns the text of each Markdown file, by its path from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "artifacts") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		all[path] = string(text)
		return err
	}))
	require.Greater(t, len(all), 20)
	return all
}

// anchors returns the anchors that GitHub makes from a document's headings.
func anchors(text string) (all []string) {
	for line := range strings.SplitSeq(code.ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasPrefix(s, "```") {
			return ""
		}
		return s
	}), "\n") {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.TrimSpace(link.ReplaceAllString(strings.NewReplacer("[", "", "`", "").Replace(heading), ""))))
	}
	return all
}

// Each link between documents leads to a file that exists and, if the link has an anchor, to a heading of that file.
func TestEachLinkOfTheDocumentsLeadsSomewhere(t *testing.T) {
	all := documents(t)
	for path, text := range all {
		for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			if strings.Contains(found[1], "://") || strings.HasPrefix(found[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			at := path
			if file != "" {
				at = filepath.Join(filepath.Dir(path), file)
			}
			_, err := os.Stat(filepath.Join(root, at))
			if !strings.HasPrefix(at, "..") { // links beyond the root lead to GitHub's own pages
				require.NoError(t, err, "%s: %s", path, found[1])
			}
			if anchor != "" && strings.HasSuffix(at, ".md") {
				require.Contains(t, anchors(all[at]), anchor, "%s: %s", path, found[1])
			}
		}
	}
}

// Each make target, each script and each folder that a command in a document names exists.
func TestEachCommandOfTheDocumentsExists(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	var targets []string
	for _, found := range target.FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, found[1])
	}
	for path, text := range documents(t) {
		for _, command := range code.FindAllString(text, -1) {
			for _, found := range makes.FindAllStringSubmatch(command, -1) {
				require.Contains(t, targets, found[1], "%s: %s", path, command)
			}
			for _, found := range script.FindAllStringSubmatch(command, -1) {
				require.True(t, exists(found[1]), "%s: %s", path, command)
			}
			for line := range strings.SplitSeq(command, "\n") {
				found := goPath.FindStringSubmatch(line)
				if found == nil {
					continue
				}
				folders := []string{".", filepath.Dir(path)}
				if in := inFolder.FindStringSubmatch(line); in != nil {
					folders = []string{in[1]}
				}
				require.True(t, slices.ContainsFunc(folders, func(folder string) bool {
					return exists(filepath.Join(folder, strings.TrimSuffix(found[1], "...")))
				}), "%s: %s", path, line)
			}
		}
	}
}

// exists reports whether the repository has a file.
func exists(path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}
