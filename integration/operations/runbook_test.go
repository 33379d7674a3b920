package operations

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

// section returns the text of a chapter of the runbook.
func section(t *testing.T, title string) string {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n## "+title+"\n")
	require.True(t, found)
	within, _, _ := strings.Cut(after, "\n## ")
	return within
}

// The runbook has each alert of the rules, and no other.
func TestTheRunbookHasEachAlert(t *testing.T) {
	text, err := os.ReadFile(rules)
	require.NoError(t, err)
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(text), -1)
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(section(t, "Runbook"), -1)
	require.NotEmpty(t, alerts)
	require.Len(t, rows, len(alerts))
	for i := range alerts {
		require.Equal(t, alerts[i][1], rows[i][1], "in the order of the rules")
	}
}

// maxRows bounds the table of errors, which an operator reads under pressure.
const maxRows = 40

// row is a line of the table of errors.
type row struct {
	texts           []string // three dots stand for variable text
	sentinel, code  string   // "" if there is none
	meaning, remedy string
}

var quoted = regexp.MustCompile("`([^`]+)`")

func errorRows(t *testing.T) (rows []row) {
	t.Helper()
	for _, cells := range regexp.MustCompile(`(?m)^\| (.+) \| (.+) \| (.+) \| (.+) \|$`).FindAllStringSubmatch(section(t, "Errors"), -1)[1:] {
		r := row{meaning: cells[3], remedy: cells[4]}
		for _, text := range quoted.FindAllStringSubmatch(cells[1], -1) {
			r.texts = append(r.texts, text[1])
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if regexp.MustCompile(`^[a-z_]+$`).MatchString(name[1]) {
				r.code = name[1]
			} else {
				r.sentinel = name[1]
			}
		}
		rows = append(rows, r)
	}
	require.NotEmpty(t, rows)
	require.LessOrEqual(t, len(rows), maxRows)
	return rows
}

// sentinels returns the texts of the exported sentinels for users, by name. A sentinel of package leasing has no package before
// its name.
func sentinels(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	others := []string{"internal", "integration", "bench", "samples", "testdata", "providers", "providerkit", "providertest", "servertest"}
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if err == nil && slices.Contains(others, entry.Name()) {
				return filepath.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Err") {
				return true
			}
			call, ok := spec.Values[0].(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			literal, ok := call.Args[0].(*ast.BasicLit)
			require.True(t, ok, "%s: the text of %s is a literal", path, spec.Names[0])
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			name := file.Name.Name + "." + spec.Names[0].Name
			found[strings.TrimPrefix(strings.Replace(name, "seqstore.", "sequence.", 1), "abstractions.")] = text
			return true
		})
		return nil
	}))
	return found
}

// The table of errors has each sentinel for users and each value of error.type, and its texts are those in the source.
func TestTheRunbookHasEachSentinelAndCode(t *testing.T) {
	telemetry, err := os.ReadFile("../../internal/instrument/metrics.go")
	require.NoError(t, err)
	codes := map[string]string{} // from the error to its code
	for _, match := range regexp.MustCompile(`(?m)^\t\{([\w.]+), "(\w+)"\},$`).FindAllSubmatch(telemetry, -1) {
		codes[strings.TrimPrefix(string(match[1]), "abstractions.")] = string(match[2])
	}
	require.Greater(t, len(codes), 10)
	require.Contains(t, string(telemetry), `return "other"`)

	texts := sentinels(t)
	require.Greater(t, len(texts), 25)
	texts["context.DeadlineExceeded"], texts["context.Canceled"] = context.DeadlineExceeded.Error(), context.Canceled.Error()
	missing, unused := maps.Clone(texts), maps.Clone(codes)
	for _, r := range errorRows(t) {
		require.NotEmpty(t, r.meaning)
		require.NotEmpty(t, r.remedy)
		if r.sentinel == "" {
			require.Equal(t, "other", r.code)
			continue
		}
		require.Contains(t, texts, r.sentinel)
		require.Equal(t, codes[r.sentinel], r.code, r.sentinel)
		require.NotEmpty(t, r.texts, r.sentinel)
		if !strings.HasPrefix(r.sentinel, "Err") { // the other test has the texts of package leasing
			require.Equal(t, []string{texts[r.sentinel]}, r.texts, r.sentinel)
		}
		delete(missing, r.sentinel)
		delete(unused, r.sentinel)
	}
	require.Empty(t, missing)
	require.Empty(t, unused)
}

// For each sentinel of package leasing, the table has exactly the texts of the errors in the source that
// match the sentinel.
func TestTheRunbookHasEachError(t *testing.T) {
	classes := map[string]error{
		"ErrHeld": leasing.ErrHeld, "ErrLost": leasing.ErrLost, "ErrReleased": leasing.ErrReleased, "ErrHandedOver": leasing.ErrHandedOver,
		"ErrUnavailable": leasing.ErrUnavailable, "ErrThrottled": leasing.ErrThrottled, "ErrDenied": leasing.ErrDenied, "ErrNotSetUp": leasing.ErrNotSetUp,
		"ErrInvalid": leasing.ErrInvalid, "ErrStale": leasing.ErrStale, "ErrUnsupported": leasing.ErrUnsupported, "ErrClosed": leasing.ErrClosed,
	}
	all := []error{
		&leasing.HeldError{Holder: leasing.Record{Held: true}}, &leasing.HeldError{}, &leasing.HeldError{Holder: leasing.Record{Held: true}, ByThisManager: true},
		&leasing.InvalidError{Field: "Options.TTL", Value: 0, Want: "more"},
	}
	for _, reason := range []leasing.LostReason{
		leasing.LostExpired, leasing.LostTaken, leasing.LostBroken, leasing.LostGone, leasing.LostRenewalLimit, leasing.LostClosed,
	} {
		all = append(all, &leasing.LostError{Reason: reason})
	}
	for _, class := range classes {
		if !slices.ContainsFunc(all, func(err error) bool { return errors.Is(err, class) }) {
			all = append(all, class)
		}
	}
	for _, r := range errorRows(t) {
		if !strings.HasPrefix(r.sentinel, "Err") {
			continue
		}
		for _, text := range r.texts {
			pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\.\.\.`, ".+") + "$")
			i := slices.IndexFunc(all, func(err error) bool { return pattern.MatchString(err.Error()) })
			require.GreaterOrEqual(t, i, 0, text)
			require.ErrorIs(t, all[i], classes[r.sentinel])
			all = slices.Delete(all, i, i+1)
		}
	}
	require.Empty(t, all)
}
