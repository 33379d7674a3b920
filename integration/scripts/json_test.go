package scripts_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// othersJSON lists the files and folders that read or write the JSON of another program, and use that program's names.
var othersJSON = []string{
	"auth/redisauth/token.go", "integration/", "providers/cosmos/answers.go", "providers/cosmos/cosmostest/", "providers/cosmos/store.go",
	"providers/kubernetes/lease.go", "providers/kubernetes/rules.go",
}

// If one exported field of a struct has a JSON name, each exported field has one, in snake_case.
func TestTrap_T252_JSONIsSnakeCase(t *testing.T) {
	structs := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		for _, others := range othersJSON {
			if strings.HasPrefix(filepath.ToSlash(name), others) {
				return nil
			}
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				problems, hasJSON := caseProblems(s)
				for _, problem := range problems {
					t.Errorf("%s: %s", files.Position(s.Pos()), problem)
				}
				if hasJSON {
					structs++
				}
			}
			return true
		})
		return nil
	}))
	require.Greater(t, structs, 60)
}

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// caseProblems returns the problems with the JSON names of a struct, and whether the struct has JSON names.
func caseProblems(s *ast.StructType) (problems []string, hasJSON bool) {
	var without []string
	for _, field := range s.Fields.List {
		tag := ""
		if field.Tag != nil {
			tag, _ = strconv.Unquote(field.Tag.Value)
		}
		text, tagged := reflect.StructTag(tag).Lookup("json")
		name, _, _ := strings.Cut(text, ",")
		hasJSON = hasJSON || tagged
		for _, ident := range field.Names { // an embedded field has no Names, and no JSON name of its own
			switch {
			case text == "-" || !ident.IsExported():
			case name == "":
				without = append(without, ident.Name+" has no name in JSON")
			case !snakeCase.MatchString(name):
				problems = append(problems, name+" is not in snake_case")
			}
		}
	}
	if hasJSON {
		problems = append(problems, without...)
	}
	return problems, hasJSON
}

// The check finds JSON names in other casings.
func TestCasingIsSeen(t *testing.T) {
	for text, want := range map[string]int{
		"`json:\"Mode\"`": 1, "`json:\"accountUrl\"`": 1, "`json:\"account-url\"`": 1, "`json:\",omitempty\"`": 1,
		"`json:\"account_url,omitempty\"`": 0, "`json:\"p99_s\"`": 0, "`json:\"-\"`": 0, "`option:\"secret\"`": 0,
	} {
		expr, err := parser.ParseExpr("struct { AccountURL string " + text + "; key string }")
		require.NoError(t, err)
		problems, _ := caseProblems(expr.(*ast.StructType))
		require.Len(t, problems, want, text)
	}
	expr, err := parser.ParseExpr("struct { A int `json:\"a\"`; B int }")
	require.NoError(t, err)
	problems, _ := caseProblems(expr.(*ast.StructType))
	require.Equal(t, []string{"B has no name in JSON"}, problems)
}
