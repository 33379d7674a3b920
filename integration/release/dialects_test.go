package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clients maps the folder of each SQL dialect to its client library.
var clients = map[string]string{"postgres": "github.com/jackc/pgx/", "sqlite": "github.com/ncruces/go-sqlite3", "mysql": "github.com/go-sql-driver/mysql", "sqlserver": "github.com/microsoft/go-mssqldb"}

// A program that uses one SQL dialect links only that dialect's client: SQLite alone is larger than all the rest of a PostgreSQL
// program.
func TestAProgramOfOneDialectLinksOneClient(t *testing.T) {
	const module = "github.com/distributedleasing/leasing/providers/sql"
	for dialect, packages := range map[string][]string{
		"":          {module, module + "/dialect", module + "/sqlkit"},
		"postgres":  {module + "/postgres", module + "/postgres/pgkit"},
		"sqlite":    {module + "/sqlite"},
		"mysql":     {module + "/mysql"},
		"sqlserver": {module + "/sqlserver"},
	} {
		linked := output(t, append([]string{"list", "-deps"}, packages...)...)
		for other, client := range clients {
			require.Equal(t, other == dialect, strings.Contains(linked, client), "%q and %s", dialect, client)
		}
	}
}

// The first program of a user of PostgreSQL, built without debug tables, is smaller than 14 MB. It is 12 MB, and was 24 MB when
// one module had all dialects.
func TestAPostgreSQLProgramIsSmall(t *testing.T) {
	const most = 14_000_000
	dir := t.TempDir()
	program, source := filepath.Join(dir, "program"), filepath.Join(dir, "main.go")
	require.NoError(t, writeConsumer(".", released{dir: "providers/sql/postgres", slug: "providers-sql-postgres"}, source))
	output(t, "build", "-ldflags=-s -w", "-o", program, source)
	info, err := os.Stat(program)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(most))
}

// output returns the output of the go command in this package's workspace.
func output(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return string(out)
}
