package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// change is one place where an operator changes a file: text replaces the bytes from start to end.
type change struct {
	operator   string
	where      string // the function; "" outside of functions
	start, end int
	text       string
}

// changes returns the changes that the operators make to a file, in the order of their
// positions. Only Go, Lua and SQL have operators.
func changes(file, text string) (all []change, err error) {
	switch path.Ext(file) {
	case ".go":
		all, err = goChanges(file, text)
	case ".lua":
		all = textChanges(text, lua)
	case ".sql":
		all = textChanges(text, sql)
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Or(a.start-b.start, a.end-b.end) })
	return all, err
}

// opposites maps operators to their replacements. The operands of "-" are swapped instead.
var opposites = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB,
}

// goChanges returns the changes to a Go file.
func goChanges(file, text string) (all []change, err error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range parsed.Decls {
		w := walk{text: text, offset: func(p token.Pos) int { return set.Position(p).Offset }, sql: strings.HasPrefix(file, "providers/sql/")}
		switch d := d.(type) {
		case *ast.FuncDecl:
			w.where = d.Name.Name
			if d.Recv != nil {
				w.where = strings.TrimLeft(w.source(d.Recv.List[0].Type), "*") + "." + w.where
			}
			w.results = d.Type.Results
		case *ast.GenDecl:
			if d.Tok == token.IMPORT || d.Tok == token.TYPE {
				continue
			}
		}
		w.visit(d)
		all = append(all, w.all...)
	}
	return all, nil
}

// walk collects the changes to one declaration.
type walk struct {
	text    string
	offset  func(token.Pos) int
	where   string
	results *ast.FieldList // of the innermost function
	sql     bool           // whether string literals are SQL
	all     []change
}

func (w *walk) source(n ast.Node) string { return w.text[w.offset(n.Pos()):w.offset(n.End())] }

func (w *walk) replace(operator string, n ast.Node, text string) {
	w.all = append(w.all, change{operator, w.where, w.offset(n.Pos()), w.offset(n.End()), text})
}

func (w *walk) visit(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			outer := w.results
			w.results = n.Type.Results
			w.visit(n.Body)
			w.results = outer
			return false
		case *ast.IfStmt:
			w.negate(n.Cond)
		case *ast.ForStmt:
			w.negate(n.Cond)
		case *ast.BinaryExpr:
			w.binary(n)
		case *ast.BlockStmt:
			w.drop(n.List)
		case *ast.CaseClause:
			w.body(n.Body)
		case *ast.CommClause:
			w.body(n.Body)
		case *ast.BasicLit:
			w.literal(n)
		case *ast.SelectorExpr:
			if s := w.source(n); strings.HasPrefix(s, "time.") && slices.Contains([]string{"Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}, n.Sel.Name) {
				w.replace("double a duration", n, "(2 * "+s+")")
			}
		case *ast.Ident:
			switch n.Name {
			case "true":
				w.replace("change a constant", n, "false")
			case "false":
				w.replace("change a constant", n, "true")
			}
		case *ast.ReturnStmt:
			w.returns(n)
		}
		return true
	})
}

// negate skips comparisons by == and !=, which "replace an operator" negates.
func (w *walk) negate(cond ast.Expr) {
	if cond == nil {
		return
	}
	if b, ok := cond.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
		return
	}
	w.replace("negate a condition", cond, "!("+w.source(cond)+")")
}

func (w *walk) binary(n *ast.BinaryExpr) {
	if n.Op == token.SUB {
		w.replace("swap operands", n, w.source(n.Y)+" - "+w.source(n.X))
		return
	}
	if other, ok := opposites[n.Op]; ok {
		at := w.offset(n.OpPos)
		w.all = append(w.all, change{"replace an operator", w.where, at, at + len(n.Op.String()), other.String()})
	}
}

// drop adds changes that remove single statements, except declarations and control flow.
func (w *walk) drop(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.IncDecStmt, *ast.SendStmt:
		default:
			continue
		}
		w.replace("drop a statement", s, "")
	}
}

// body adds changes that remove single statements of a case, and a change that removes the whole
// body.
func (w *walk) body(list []ast.Stmt) {
	if len(list) == 0 {
		return
	}
	w.drop(list)
	if _, bare := list[0].(*ast.ExprStmt); len(list) > 1 || !bare { // otherwise this is the same as dropping that statement
		w.all = append(w.all, change{"empty a case", w.where, w.offset(list[0].Pos()), w.offset(list[len(list)-1].End()), ""})
	}
}

func (w *walk) literal(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		for _, other := range numbers(n.Value) {
			w.replace("change a constant", n, other)
		}
	case token.FLOAT:
		w.replace("change a constant", n, "0.0")
		w.replace("change a constant", n, "(2 * "+n.Value+")")
	case token.STRING:
		if w.sql && isSQL.MatchString(n.Value) {
			for _, c := range textChanges(n.Value, sql) {
				c.where = w.where
				c.start, c.end = c.start+w.offset(n.Pos()), c.end+w.offset(n.Pos())
				w.all = append(w.all, c)
			}
		}
	}
}

// numbers returns the replacements of a number: 0, 1 and its double.
func numbers(n string) []string {
	switch v, err := strconv.ParseInt(n, 0, 64); {
	case err != nil:
		return nil
	case v == 0:
		return []string{"1"}
	case v == 1:
		return []string{"0", "2"}
	case v > 1<<61:
		return []string{"0", "1"}
	default:
		return []string{"0", "1", strconv.FormatInt(2*v, 10)}
	}
}

// returns adds a change that replaces the error in a return statement with nil.
func (w *walk) returns(n *ast.ReturnStmt) {
	if w.results == nil || len(n.Results) != w.results.NumFields() {
		return
	}
	last := w.results.List[len(w.results.List)-1]
	if name, ok := last.Type.(*ast.Ident); !ok || name.Name != "error" {
		return
	}
	if err := n.Results[len(n.Results)-1]; w.source(err) != "nil" {
		w.replace("return no error", err, "nil")
	}
}

// isSQL matches SQL among the string literals of the files below providers/sql.
var isSQL = regexp.MustCompile(`\b(SELECT|UPDATE|DELETE|INSERT|WHERE|coalesce|CASE|AND)\b`)

// rule replaces the first group of each match, in a line. The result is never a syntax error.
type rule struct {
	operator string
	of       *regexp.Regexp
	to       string // "" removes the group
}

// language describes the language of a text file.
type language struct {
	comment string
	// beside matches the lines to which no rule applies.
	beside *regexp.Regexp
	// function finds the function that begins in a line.
	function *regexp.Regexp
	rules    []rule
}

func rules(operator string, pairs ...string) (all []rule) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, rule{operator, regexp.MustCompile(pairs[i]), pairs[i+1]})
	}
	return all
}

var (
	lua = language{"--", regexp.MustCompile(`^$`), regexp.MustCompile(`^(?:local )?function ([\w.]+)`), slices.Concat(
		rules("replace an operator", ` (==) `, "~=", ` (~=) `, "==", ` (<) `, "<=", ` (<=) `, "<", ` (>) `, ">=", ` (>=) `, ">", ` (and) `, "or", ` (or) `, "and", ` (\+) `, "-", ` (-) `, "+"),
		rules("negate a condition", `\b(not )`, ""),
		rules("drop a statement", `^\s*([\w.]+\([^()]*(?:\([^()]*\)[^()]*)*\))$`, "", `^\s*([\w.\[\]]+ = [^()]*(?:\([^()]*\)[^()]*)*)$`, ""),
	)}
	sql = language{"--", regexp.MustCompile(`(?i)\bBETWEEN\b|\bCREATE\b|\bDISTINCT FROM\b`), nil, slices.Concat(
		rules("replace an operator", ` (<>) `, "=", ` (<) `, "<=", ` (<=) `, "<", ` (>) `, ">=", ` (>=) `, ">",
			`\b(?:WHERE|AND|OR|ON|WHEN) [\w.]+ (=) `, "<>", ` (AND) `, "OR", `^\s*(AND) `, "OR", ` (OR) `, "AND", ` (\+) `, "-", ` (-) `, "+", `\b(greatest)\(`, "least", `\b(least)\(`, "greatest"),
		rules("negate a condition", `(?:WHERE|AND|OR|WHEN|\() ?(NOT )`, "", `IS (NOT )NULL`, "", `IS ()NULL`, "NOT "),
		rules("drop a condition", `^\s*((?:AND|OR) [^()]*(?:\([^()]*\)[^()]*)*)$`, ""),
	)}
)

// ints are whole numbers in a line. Digits of a name, a parameter or a decimal do not match.
var ints = regexp.MustCompile(`(?:^|[ (,{\[])(\d+)(?:$|[ ),}\];])`)

// textChanges applies the rules to each line, outside of comments, quotes and {{ }}.
func textChanges(text string, l language) (all []change) {
	at, where := 0, ""
	for line := range strings.Lines(text) {
		start := at
		at += len(line)
		line = strings.TrimSuffix(line, "\n")
		if l.function != nil {
			if found := l.function.FindStringSubmatch(line); found != nil {
				where = found[1]
			}
		}
		code := maskLine(line, l.comment)
		if l.beside.MatchString(code) {
			continue
		}
		for _, r := range l.rules {
			for _, found := range r.of.FindAllStringSubmatchIndex(code, -1) {
				all = append(all, change{r.operator, where, start + found[2], start + found[3], r.to})
			}
		}
		for _, found := range ints.FindAllStringSubmatchIndex(code, -1) {
			for _, other := range numbers(code[found[2]:found[3]]) {
				all = append(all, change{"change a constant", where, start + found[2], start + found[3], other})
			}
		}
	}
	return all
}

// maskLine returns a line without its comment, with an underscore for each byte that is quoted or
// inside {{ }}.
func maskLine(line, comment string) string {
	code := []byte(line)
	quoted, holes := false, 0
	for i := range code {
		rest := line[i:]
		switch {
		case !quoted && holes == 0 && strings.HasPrefix(rest, comment):
			return strings.TrimRight(string(code[:i]), " ")
		case code[i] == '\'' && holes == 0:
			quoted = !quoted
			continue
		case !quoted && strings.HasPrefix(rest, "{{"):
			holes++
		case !quoted && strings.HasPrefix(rest, "}}"):
			holes--
		}
		if quoted || holes > 0 {
			code[i] = '_'
		}
	}
	return string(code)
}

// shorten returns code on one line, truncated if it is long.
func shorten(code string) string {
	code = strings.Join(strings.Fields(code), " ")
	if letters := []rune(code); len(letters) > 70 {
		return string(letters[:70]) + "…"
	}
	return code
}

// name identifies the change without a line number, so that a change keeps its name when the code around it moves.
func (c change) name(file, text string) string {
	from, to := strings.LastIndexByte(text[:c.start], '\n')+1, len(text)
	if end := strings.IndexByte(text[c.end:], '\n'); end >= 0 {
		to = c.end + end
	}
	new := shorten(text[from:c.start] + c.text + text[c.end:to])
	if c.text == "" {
		new = "without `" + shorten(text[c.start:c.end]) + "`"
	} else {
		new = "`" + new + "` for `" + shorten(text[from:to]) + "`"
	}
	return fmt.Sprintf("%s %s: %s: %s", file, cmp.Or(c.where, "-"), c.operator, new)
}
