package scripts_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module         = "github.com/distributedleasing/leasing"
	maxModuleWords = 499 // of a module's README, without its generated table
	maxPageWords   = 1800
	maxLines       = 39 // of a program
)

var update = flag.Bool("update", false, "write the tables of options again")

var (
	optionTable = regexp.MustCompile(`(?s)<!-- options (\S+) -->\n.*?<!-- end of options -->\n`)
	goBlock     = regexp.MustCompile("(?s)```go\n(.*?)```")
)

// releasedModules returns the folders of the released modules, which go.work replaces, without the root.
func releasedModules(t *testing.T) []string {
	text, err := os.ReadFile(filepath.Join(root, "go.work"))
	require.NoError(t, err)
	var folders []string
	for _, match := range regexp.MustCompile(`(?m)^\tgithub\S+ v\S+ => \./(\S+)$`).FindAllSubmatch(text, -1) {
		folders = append(folders, string(match[1]))
	}
	require.Greater(t, len(folders), 15)
	return folders
}

func readmeOf(t *testing.T, folder string) string {
	text, err := os.ReadFile(filepath.Join(root, folder, "README.md"))
	require.NoError(t, err)
	return string(text)
}

func hasCommand(folder string) bool {
	_, err := os.Stat(filepath.Join(root, folder, "main.go"))
	return err == nil
}

// Each released module has a README for pkg.go.dev, which is short, and has the parts that a reader looks for.
func TestEachReleasedModuleHasAREADME(t *testing.T) {
	for _, folder := range releasedModules(t) {
		t.Run(folder, func(t *testing.T) {
			readme := readmeOf(t, folder)
			require.LessOrEqual(t, len(strings.Fields(optionTable.ReplaceAllString(readme, ""))), maxModuleWords, "words")
			require.Regexp(t, `^# \S`, readme)
			path := regexp.QuoteMeta(module + "/" + folder)
			if hasCommand(folder) {
				require.Regexp(t, `(?m)^(CGO_ENABLED=0 )?go install .*`+path+`@latest$`, readme)
			} else {
				require.Regexp(t, `(?m)^go get `+path+`$`, readme)
				require.Len(t, goBlock.FindAllString(readme, -1), 1, "one program")
			}
			for _, section := range []string{"Promises", "Limits", "Troubleshooting"} {
				require.Contains(t, readme, "\n## "+section+"\n")
			}
			if strings.HasPrefix(folder, "providers/") && folder != "providers/sql" {
				require.Regexp(t, `\]\((\.\./)+docs/providers/[a-z0-9]+\.md`, readme)
			}
			rows := troubles(t, readme)
			require.GreaterOrEqual(t, len(rows), 3)
			require.LessOrEqual(t, len(rows), 5)
		})
	}
}

// We have not run these providers on Azure, and their READMEs begin with this fact.
func TestTheREADMEsOfAzureSayFirstThatWeHaveNotRunThere(t *testing.T) {
	for _, folder := range []string{"providers/blob", "providers/cosmos"} {
		_, rest, _ := strings.Cut(readmeOf(t, folder), "\n")
		require.True(t, strings.HasPrefix(rest, "\nWe have not run this provider on Azure."), folder)
	}
}

// None of our machines can run SQL Server. The word "experimental" goes away once the workflow has passed.
func TestSQLServerIsCalledExperimentalFirst(t *testing.T) {
	require.True(t, strings.HasPrefix(readmeOf(t, "providers/sql/sqlserver"), "# Leases in SQL Server, experimental\n\nExperimental: we have not run this provider on a real server yet."))
	page, err := os.ReadFile(filepath.Join(root, "docs", "providers", "sqlserver.md"))
	require.NoError(t, err)
	require.Regexp(t, `^# SQL Server, not run on a real server yet\n`, string(page))
	require.LessOrEqual(t, len(strings.Fields(string(page))), 600)
}

// troubles returns the error texts of the section on troubleshooting: for each row, the code in its first column.
func troubles(t *testing.T, readme string) (texts [][]string) {
	_, section, found := strings.Cut(readme, "\n## Troubleshooting\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \| .* \|$`).FindAllStringSubmatch(section, -1)[1:] {
		var code []string
		for _, c := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			code = append(code, c[1])
		}
		require.NotEmpty(t, code, row[0])
		texts = append(texts, code)
	}
	return texts
}

// Each error text of the READMEs is in a string of Go code. Three dots stand for variable text.
func TestErrorTextsOfREADMEsAreInTheCode(t *testing.T) {
	var literals strings.Builder
	walk(t, func(path, text string) {
		if strings.Contains(path, filepath.Join("integration", "scripts")) {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				literals.WriteString(value + "\n")
			}
			return true
		})
	})
	var missing []string
	for _, folder := range releasedModules(t) {
		for _, texts := range troubles(t, readmeOf(t, folder)) {
			for _, text := range texts {
				for _, part := range strings.Split(text, "...") {
					if !strings.Contains(literals.String(), strings.TrimSpace(part)) {
						missing = append(missing, folder+": "+text)
					}
				}
			}
		}
	}
	require.Empty(t, missing)
}

// Each released module has an example. Package documentation on pkg.go.dev shows examples.
func TestEachReleasedModuleHasAnExample(t *testing.T) {
	folders := releasedModules(t)
	have := map[string]bool{}
	walk(t, func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") || !strings.Contains(text, "\nfunc Example") {
			return
		}
		module, dir := "", filepath.ToSlash(filepath.Dir(path))
		for _, folder := range folders { // the innermost module that has the file
			if len(folder) > len(module) && strings.HasPrefix(dir+"/", "../../"+folder+"/") {
				module = folder
			}
		}
		have[module] = true
	})
	for _, folder := range folders {
		require.True(t, have[folder], folder)
	}
}

// walk calls do with each Go file of the repository.
func walk(t *testing.T, do func(path, text string)) {
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "artifacts" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		do(path, string(text))
		return err
	}))
}

// The tables of options repeat the comments in the code. The flag -update writes the tables.
func TestTablesOfOptionsAreThoseOfTheCode(t *testing.T) {
	tables := 0
	for _, folder := range releasedModules(t) {
		readme := readmeOf(t, folder)
		want := optionTable.ReplaceAllStringFunc(readme, func(old string) string {
			tables++
			name := optionTable.FindStringSubmatch(old)[1]
			return "<!-- options " + name + " -->\n<!-- vale off -->\n\n" + tableOf(t, folder, name) + "\n<!-- vale on -->\n<!-- end of options -->\n"
		})
		if *update && want != readme {
			require.NoError(t, os.WriteFile(filepath.Join(root, folder, "README.md"), []byte(want), 0o644))
			continue
		}
		require.Equal(t, want, readme, "%s: go test -C integration ./scripts -run Tables -update", folder)
	}
	require.Greater(t, tables, 12)
	withOptions := 0
	for _, folder := range releasedModules(t) {
		if structOf(t, token.NewFileSet(), filepath.Join(root, folder), "Options") != nil {
			withOptions++
			require.Contains(t, readmeOf(t, folder), "<!-- options Options -->")
		}
	}
	require.Greater(t, withOptions, 10)
}

// structOf finds a struct of a package, or returns nil.
func structOf(t *testing.T, lines *token.FileSet, folder, name string) (found *ast.StructType) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(lines, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == name {
				found, _ = spec.Type.(*ast.StructType)
			}
			return found == nil
		})
	}
	return found
}

// tableOf returns the table of a struct. name is "Options", or "folder.Options" for a package below the module.
func tableOf(t *testing.T, folder, name string) string {
	if sub, in, found := strings.Cut(name, "."); found {
		folder, name = filepath.Join(folder, sub), in
	}
	lines := token.NewFileSet()
	of := structOf(t, lines, filepath.Join(root, folder), name)
	require.NotNil(t, of, "%s has a struct %s", folder, name)
	type row struct{ names, keys, text string }
	var rows []row
	var keys bool
	next := 0 // the line below the previous field
	for _, field := range of.Fields.List {
		joined := lines.Position(field.Pos()).Line == next
		next = lines.Position(field.End()).Line + 1
		var names []string
		for _, n := range field.Names {
			if n.IsExported() {
				names = append(names, "`"+n.Name+"`")
			}
		}
		if len(names) == 0 {
			continue
		}
		key := ""
		if field.Tag != nil {
			tag, err := strconv.Unquote(field.Tag.Value)
			require.NoError(t, err)
			if key = reflect.StructTag(tag).Get("json"); key != "" && key != "-" {
				keys, key = true, "`"+key+"`"
			} else {
				key = ""
			}
		}
		r := row{strings.Join(names, ", "), key, textOf(field.Doc)}
		if r.text == "" {
			r.text = textOf(field.Comment)
		}
		if last := len(rows) - 1; r.text == "" && joined { // the comment above also covers this field
			rows[last].names += ", " + r.names
			if r.keys != "" {
				rows[last].keys += ", " + r.keys
			}
			continue
		}
		rows = append(rows, r)
	}
	var table strings.Builder
	table.WriteString("| field |" + map[bool]string{true: " JSON |"}[keys] + " |\n|---|" + map[bool]string{true: "---|"}[keys] + "---|\n")
	for _, r := range rows {
		require.NotEmpty(t, r.text, "%s: a comment says what %s is", folder, r.names)
		if keys {
			r.names += " | " + r.keys
		}
		table.WriteString("| " + r.names + " | " + r.text + " |\n")
	}
	return table.String()
}

// textOf returns the first paragraph of a comment, with the code that follows it, as a cell of a table.
func textOf(group *ast.CommentGroup) string {
	if group == nil {
		return ""
	}
	parts := new(comment.Parser).Parse(group.Text()).Content
	var cell strings.Builder
	for i, part := range parts {
		switch part := part.(type) {
		case *comment.Paragraph:
			if i > 0 {
				return cell.String()
			}
			plain := new(comment.Printer).Text(&comment.Doc{Content: []comment.Block{part}})
			cell.WriteString(escapeCell(strings.Join(strings.Fields(string(plain)), " ")))
		case *comment.Code:
			for line := range strings.Lines(part.Text) {
				cell.WriteString("<br>`" + strings.TrimSpace(line) + "`")
			}
		default:
			return cell.String()
		}
	}
	return cell.String()
}

func escapeCell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`, "_", `\_`).Replace(text)
}

// compile builds packages of one file each, which exist only for this test. It links nothing.
func compile(t *testing.T, files map[string]string) {
	here, err := filepath.Abs("..")
	require.NoError(t, err)
	temp, replace := t.TempDir(), map[string]string{}
	for name, text := range files {
		path := filepath.Join(temp, strings.ReplaceAll(name, "/", "_")+".go")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		replace[filepath.Join(here, "programs", filepath.FromSlash(name), "program.go")] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(temp, "overlay.json"), overlay, 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, "-overlay", filepath.Join(temp, "overlay.json"), "./programs/...")
	build.Dir = here
	build.Env = append(os.Environ(), "GOWORK="+filepath.Join(filepath.Dir(here), "go.work"))
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out)) // the go command warns of a pattern without packages
}

// The programs of the modules' READMEs and the examples of docs/migrating.md compile.
func TestProgramsInDocumentsCompile(t *testing.T) {
	files := examplesOfMigrating(t)
	require.GreaterOrEqual(t, len(files), 6)
	for _, folder := range releasedModules(t) {
		block := goBlock.FindStringSubmatch(readmeOf(t, folder))
		if block == nil {
			continue // a command
		}
		require.True(t, strings.HasPrefix(block[1], "package main\n"), "%s: the program is complete", folder)
		require.Contains(t, block[1], `"`+module+"/"+folder, "%s: the program uses the module", folder)
		require.LessOrEqual(t, strings.Count(block[1], "\n"), maxLines, folder)
		formatted, err := format.Source([]byte(block[1]))
		require.NoError(t, err, folder)
		require.Equal(t, string(formatted), block[1], "%s: gofmt", folder)
		files[folder] = strings.Replace(block[1], "package main\n", "package program\n", 1) // package program is not linked
	}
	require.Greater(t, len(files), 20)
	compile(t, files)
}

// imports maps package names to import paths. The examples in docs/migrating.md leave the imports out.
var imports = map[string]string{
	"concurrency": "go.etcd.io/etcd/client/v3/concurrency",
	"clientv3":    "go.etcd.io/etcd/client/v3",
	"context":     "context",
	"errors":      "errors",
	"goredis":     "github.com/go-redsync/redsync/v4/redis/goredis/v9",
	"leasing":     module,
	"mysqllease":  module + "/providers/sql/mysql",
	"redis":       "github.com/redis/go-redis/v9",
	"redislease":  module + "/providers/redis",
	"redislock":   "github.com/bsm/redislock",
	"redsync":     "github.com/go-redsync/redsync/v4",
	"etcdlease":   module + "/providers/etcd",
	"election":    module + "/recipes/election",
	"time":        "time",
}

// examplesOfMigrating adds to each example of docs/migrating.md the imports that it needs.
func examplesOfMigrating(t *testing.T) map[string]string {
	page, err := os.ReadFile(filepath.Join(root, "docs", "migrating.md"))
	require.NoError(t, err)
	files := map[string]string{}
	for i, block := range goBlock.FindAllSubmatch(page, -1) {
		text := "package example\n\n" + string(block[1])
		file, err := parser.ParseFile(token.NewFileSet(), "example.go", text, parser.SkipObjectResolution)
		require.NoError(t, err, "%s", block[1])
		needed := map[string]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok {
				if name, ok := selector.X.(*ast.Ident); ok {
					needed[imports[name.Name]] = true
				}
			}
			return true
		})
		text = "package example\n"
		for name, path := range imports {
			if needed[path] {
				text += "import " + name + " " + strconv.Quote(path) + "\n"
			}
		}
		files["example"+strconv.Itoa(i)] = text + string(block[1])
	}
	return files
}

func TestPagesForStrangersAreShort(t *testing.T) {
	words := 0
	for _, name := range []string{"comparison.md", "migrating.md", "costs.md"} {
		page, err := os.ReadFile(filepath.Join(root, "docs", name))
		require.NoError(t, err)
		words += len(strings.Fields(string(page)))
	}
	require.LessOrEqual(t, words, maxPageWords)
}

// The table of docs/costs.md follows from the cadence of renewals and the prices on the page.
func TestTheTableOfCostsIsComputed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "costs.md"))
	require.NoError(t, err)
	options, err := os.ReadFile(filepath.Join(root, "options.go"))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^const defaultTTL = 30 \* time\.Second$`, string(options))
	pace, err := os.ReadFile(filepath.Join(root, "internal/lifecycle/pace.go"))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^\tDefaultFraction = 0\.6$`, string(pace))
	const (
		month    = 30 * 24 * 3600.0 // s
		each     = 151_579.0        // renewals of a lease in a month
		put      = 0.005 / 1000
		other    = 0.0044 / 10_000
		ru       = 0.25 / 1_000_000
		hundred  = 0.008 * 24 * 30 // 100 RU/s for a month
		low, top = 5, 11           // RU
	)
	require.InDelta(t, month/(0.95*0.6*30), each, 1)
	provisioned := func(renewals, charge float64) (string, float64) {
		steps := max(4, math.Ceil(renewals*charge/month/100))
		return fmt.Sprint(100 * steps), steps * hundred
	}
	for leases, shown := range map[float64]string{10: "1,515,790", 100: "15,157,900", 1000: "151,579,000"} {
		n := leases * each
		require.Equal(t, strings.ReplaceAll(shown, ",", ""), fmt.Sprintf("%.0f", n))
		from, least := provisioned(n, low)
		to, most := provisioned(n, top)
		speed := fmt.Sprintf("%s RU/s, $%.2f", from, least)
		if from != to {
			speed = fmt.Sprintf("%s to %s RU/s, $%.2f to $%.2f", from, to, least, most)
		}
		row := fmt.Sprintf("| %.0f | %s | $%.2f | $%.2f | $%.2f to $%.2f | %s |\n", leases, shown, n*put, n*other, n*low*ru, n*top*ru, speed)
		require.Contains(t, string(page), row)
	}
}
