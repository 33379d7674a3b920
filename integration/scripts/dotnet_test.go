package scripts_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func fromDotnet(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "from-dotnet.md"))
	require.NoError(t, err)
	return string(text)
}

// The page names each public type of DistributedLeasing 5.x, at commit 9f35b9c, outside of its chaos package.
func TestThePageForDotnetNamesEachType(t *testing.T) {
	types, err := os.ReadFile(filepath.Join("testdata", "dotnet-types.txt"))
	require.NoError(t, err)
	page := fromDotnet(t)
	for _, name := range strings.Fields(string(types)) {
		require.True(t, regexp.MustCompile("`(?:[^`]*\\W)?"+name+"\\b").MatchString(page), "docs/from-dotnet.md has no word about %s", name)
	}
}

// exports returns the exported names of all packages for users: qualified ones, as in "leasing.Manager", and bare ones, which
// include fields and methods.
func exports(t *testing.T) (qualified, bare map[string]bool) {
	t.Helper()
	qualified, bare = map[string]bool{}, map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != root && slices.Contains([]string{".git", "integration", "bench", "samples", "testdata", "internal"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		add := func(name *ast.Ident) {
			qualified[file.Name.Name+"."+name.Name], bare[name.Name] = true, true
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				if node.Recv == nil {
					add(node.Name)
				}
				bare[node.Name.Name] = true
				return false
			case *ast.TypeSpec:
				add(node.Name)
			case *ast.ValueSpec:
				for _, name := range node.Names {
					add(name)
				}
			case *ast.Field: // of a struct, or a method of an interface
				for _, name := range node.Names {
					bare[name.Name] = true
				}
			}
			return true
		})
		return nil
	}))
	return qualified, bare
}

var (
	inline     = regexp.MustCompile("`([^`]+)`")
	goName     = regexp.MustCompile(`(?:\b([a-z]+)\.)?\b([A-Z][A-Za-z]*[a-z][A-Za-z]*)\b`)
	goColumn   = regexp.MustCompile("\\bGo\\b|^here$|^`[a-z]+\\.Options`$")
	quotedText = regexp.MustCompile(`"[^"]*"`)
)

// Each Go name in the Go columns of the tables exists, and so does each name that is qualified by one of our packages.
func TestThePageForDotnetNamesWhatExists(t *testing.T) {
	qualified, bare := exports(t)
	packages := map[string]bool{}
	for name := range qualified {
		before, _, _ := strings.Cut(name, ".")
		packages[before] = true
	}
	checked := 0
	check := func(code string, all bool) {
		if strings.Contains(code, "://") || strings.Contains(code, "/") && !strings.Contains(code, "(") {
			return // a URL or a path
		}
		for _, name := range goName.FindAllStringSubmatch(quotedText.ReplaceAllString(code, ""), -1) {
			switch {
			case name[1] == "context":
				continue
			case packages[name[1]] && name[1] != "manager":
				assert.True(t, qualified[name[1]+"."+name[2]], "%s.%s, in `%s`", name[1], name[2], code)
			case all:
				assert.True(t, bare[name[2]] || name[2] == "StreamingCredentialsProvider", "%s, in `%s`", name[2], code) // a field of go-redis
			default:
				continue
			}
			checked++
		}
	}
	page := fromDotnet(t)
	for _, code := range inline.FindAllStringSubmatch(page, -1) {
		check(code[1], false)
	}
	var columns []int
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") {
			columns = nil
			continue
		}
		if columns == nil {
			columns = []int{}
			for i, cell := range cells {
				if i > 0 && goColumn.MatchString(strings.TrimSpace(cell)) {
					columns = append(columns, i)
				}
			}
			continue
		}
		for _, i := range columns {
			if i < len(cells) {
				for _, code := range inline.FindAllStringSubmatch(cells[i], -1) {
					check(code[1], true)
				}
			}
		}
	}
	require.Greater(t, checked, 200)
}
