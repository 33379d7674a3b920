package providerkit

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

func TestGoAndGuard(t *testing.T) {
	require.NoError(t, Guard(func() error { return nil }))
	plain := errors.New("plain")
	require.Equal(t, plain, Guard(func() error { return plain }))
	for _, c := range []struct {
		do   func() error
		want string
	}{
		{func() error { panic("of a hook") }, "of a hook"},
		{func() error { runtime.Goexit(); return nil }, "ended its goroutine"},
	} {
		ended := make(chan error, 1)
		Go(c.do, func(err error) { ended <- err })
		err := <-ended
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.False(t, abstractions.NotApplied(err))
		require.ErrorAs(t, err, new(*PanicError))
		require.ErrorContains(t, err, c.want)
	}
	var g Group
	var failed error
	g.Go(func() error { panic("in a group") }, func(err error) { failed = err })
	g.Go(func() error { panic("with no function for its end") }, nil)
	g.Wait()
	panicked := (*PanicError)(nil)
	require.ErrorAs(t, failed, &panicked)
	require.Contains(t, string(panicked.Stack), "goroutines_test.go")
}

func TestAfterFuncsRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		do := func() { ran.Add(1); panic("late") }
		ctx, cancel := context.WithCancel(t.Context())
		AfterFunc(ctx, do)
		AfterTime(time.Second, do)
		cancel()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 2, ran.Load())
	})
}

// T124: a panic of the application's credential in a call on another goroutine, or of a client library during Close, ended the
// process.
func TestTrap_T124_APanicInACallIsItsError(t *testing.T) {
	for name, breaks := range map[string]func(){"of the application": func() { panic("of the application") }, "ended its goroutine": runtime.Goexit} {
		broken := true
		do := func() error {
			if broken {
				breaks()
			}
			return nil
		}
		p := New(&fake{do: func(context.Context) error { return do() }, closed: do}, Config{Timeout: time.Minute, Detach: true})
		req := abstractions.AcquireRequest{Name: "n", ID: abstractions.NewID(), Owner: "test", TTL: time.Minute}
		_, err := p.Acquire(t.Context(), req)
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.ErrorContains(t, err, name)
		require.False(t, abstractions.NotApplied(err))
		broken = false
		_, err = p.Acquire(t.Context(), req)
		require.NoError(t, err)
		broken = true
		require.ErrorContains(t, p.Close(), name)
	}
}

// T123: a panic in a goroutine that does not recover ends the process.
func TestTrap_T123_OneFunctionStartsGoroutines(t *testing.T) {
	var found []string
	for _, root := range []string{".", "../../providers", "../../auth"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || isExempt(path) {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			for _, at := range findBareGoroutines(file) {
				found = append(found, set.Position(at).String())
			}
			return nil
		}))
	}
	require.Empty(t, found, "use Go, Group, AfterFunc and AfterTime of package providerkit")
}

// isExempt reports whether a file belongs to a package for tests, or is the file that may start goroutines.
func isExempt(path string) bool {
	parts := strings.Split(filepath.ToSlash(path), "/")
	return path == "goroutines.go" || slices.ContainsFunc(parts, func(part string) bool {
		return slices.Contains([]string{"authtest", "cosmostest", "dialecttest", "redistest"}, part)
	})
}

// findBareGoroutines finds statements that start goroutines in which a panic ends the process. A context.AfterFunc may
// call a function named cancel or stop, since such a function comes from package context.
func findBareGoroutines(file *ast.File) (found []token.Pos) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, n.Pos())
		case *ast.SelectorExpr:
			if of, _ := n.X.(*ast.Ident); of != nil && of.Name == "time" && n.Sel.Name == "AfterFunc" {
				found = append(found, n.Pos())
			}
		case *ast.CallExpr:
			called, _ := n.Fun.(*ast.SelectorExpr)
			if called == nil {
				break
			}
			of, _ := called.X.(*ast.Ident)
			switch {
			case called.Sel.Name == "Go" && len(n.Args) == 1, // of a sync.WaitGroup or an errgroup.Group
				called.Sel.Name == "AfterFunc" && of != nil && of.Name == "context" && !isCancel(n.Args[1]):
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

func isCancel(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name == "cancel" || f.Name == "stop"
	case *ast.SelectorExpr:
		return f.Sel.Name == "cancel" || f.Sel.Name == "stop"
	}
	return false
}

func TestBareStartsAreFound(t *testing.T) {
	const text = `package p
import ("context"; "sync"; "time")
var all sync.WaitGroup
func f(ctx context.Context, cancel func()) {
	go f(ctx, cancel)
	time.AfterFunc(1, cancel)
	context.AfterFunc(ctx, cancel)
	context.AfterFunc(ctx, func() {})
	context.AfterFunc(ctx, x.Close)
	all.Go(cancel)
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	require.NoError(t, err)
	require.Len(t, findBareGoroutines(file), 5)
}
