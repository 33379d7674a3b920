package scripts_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rooms maps each package of the core, called a room, to the rooms that it may import.
var rooms = map[string][]string{
	"panics":     {},
	"trust":      {},
	"lifecycle":  {"trust"},
	"waiting":    {"trust"},
	"timetable":  {"trust"},
	"notify":     {},
	"instrument": {"trust"},
	"dispatch":   {"lifecycle", "panics", "trust"},
	"engine":     {"dispatch", "instrument", "lifecycle", "notify", "panics", "timetable", "trust", "waiting"},
}

func TestTheArrowsOfTheCorePointOneWay(t *testing.T) {
	const prefix = "github.com/distributedleasing/leasing/internal/"
	folders, err := filepath.Glob(filepath.Join(root, "internal", "*"))
	require.NoError(t, err)
	require.Len(t, folders, len(rooms)+1)
	for _, folder := range folders {
		room := filepath.Base(folder)
		if room == "managertest" { // has only tests
			continue
		}
		require.Contains(t, rooms, room)
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./internal/"+room)
		list.Dir = root
		out, err := list.Output()
		require.NoError(t, err, room)
		for imported := range strings.FieldsSeq(string(out)) {
			if inner, ok := strings.CutPrefix(imported, prefix); ok && inner != room {
				require.Contains(t, rooms[room], inner, room)
			}
			require.NotEqual(t, "github.com/distributedleasing/leasing", imported, room)
		}
	}
	entries, err := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "-C", root, "ls-tree", "--name-only", "HEAD").Output()
	require.NoError(t, err)
	require.LessOrEqual(t, len(strings.Fields(string(entries))), 45, "entries of the root directory")
	names, err := filepath.Glob(filepath.Join(root, "*.go"))
	require.NoError(t, err)
	count := 0
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			count++
		}
	}
	require.LessOrEqual(t, count, 12, "files of package leasing")
}

// sources parses the Go files below folders, without tests.
func sources(t *testing.T, folders ...string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, folder := range folders {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			files[filepath.ToSlash(name)], err = parser.ParseFile(positions, file, nil, parser.SkipObjectResolution)
			return err
		}))
	}
	return files
}

var positions = token.NewFileSet()

// No package outside this module has more than 20 files besides tests.
func TestPackagesAreSmall(t *testing.T) {
	files := map[string]int{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (path == filepath.Join(root, "integration") || name != ".." && strings.HasPrefix(name, ".") || name == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			files[filepath.Dir(path)]++
		}
		return nil
	}))
	require.Greater(t, len(files), 50)
	for folder, n := range files {
		require.LessOrEqual(t, n, 20, folder)
	}
}

// No constructor of a room takes an interface of more than 3 methods, so a room gets only the few functions that it needs.
func TestNoRoomIsGivenALargeInterface(t *testing.T) {
	large := map[string]int{} // the number of methods, by package and name
	files := sources(t, "internal", "abstractions")
	for file, parsed := range files {
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if i, ok := spec.Type.(*ast.InterfaceType); ok {
					large[path.Base(path.Dir(file))+"."+spec.Name.Name] = i.Methods.NumFields()
				}
			}
			return true
		})
	}
	constructors := 0
	for file, parsed := range files {
		room := path.Base(path.Dir(file))
		if !strings.HasPrefix(file, "internal/") || room == "engine" {
			continue
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "New") {
				continue
			}
			constructors++
			ast.Inspect(f.Type.Params, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if in, ok := n.X.(*ast.Ident); ok {
						require.LessOrEqual(t, large[in.Name+"."+n.Sel.Name], 3, "%s: %s", file, f.Name.Name)
					}
				case *ast.Ident:
					require.LessOrEqual(t, large[room+"."+n.Name], 3, "%s: %s", file, f.Name.Name)
				}
				return true
			})
		}
	}
	require.Greater(t, constructors, 5)
}

func TestNoFunctionOfTheCoreIsLong(t *testing.T) {
	const most = 60
	files := sources(t, "internal")
	for name, parsed := range sources(t, ".") {
		if path.Dir(name) == "." {
			files[name] = parsed
		}
	}
	for file, parsed := range files {
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				lines := positions.Position(f.End()).Line - positions.Position(f.Pos()).Line + 1
				require.LessOrEqual(t, lines, most, "%s: %s", file, f.Name.Name)
			}
		}
	}
}
