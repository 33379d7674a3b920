package sqlserverlease

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden statements again")

// batches returns the texts that the provider sends, by name, with numbered parameters.
func batches() map[string]string {
	b := &backend{ServerStore: &dialect.ServerStore{RowStore: &dialect.RowStore{Store: &dialect.Store{Tables: tablesOf("leasing", "lease")}}}}
	all := maps.Clone(b.SQL)
	for _, part := range []string{"commit", "schema", "insert", "update", "renew", "note", "forget", "trim", "rows"} {
		delete(all, part)
	}
	all["insert"] = b.transaction(b.SQL["insert"], 0)
	all["update"] = b.transaction(b.SQL["update"], 0)
	all["update with two entries"] = b.transaction(b.SQL["update"], 2)
	all["renew 2"] = b.transaction(dialect.Repeated(2, b.SQL["renew"]), 0)
	all["note 2"] = dialect.Repeated(2, b.SQL["note"])
	all["rows 2"] = dialect.Repeated(2, b.SQL["rows"])
	all["forget 2"] = dialect.Repeated(2, b.SQL["forget"]) + rowCount
	all["trim"] = b.SQL["trim"] + rowCount
	all["without waiting"] = settings + noLockWait + b.SQL["version"]
	for name, text := range all {
		all[name], _ = nameParameters(text, make([]any, strings.Count(text, "?")))
	}
	for i, text := range b.Create {
		all["schema "+string(rune('1'+i))] = text
	}
	return all
}

// The golden T-SQL makes the statements visible to readers, a syntax checker and diffs.
func TestStatementsAreTheGoldenOnes(t *testing.T) {
	var text strings.Builder
	all := batches()
	text.WriteString("-- settings, before each batch\n" + settings + lockWait + "GO\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text.WriteString("\n-- " + name + "\n" + all[name] + ";\nGO\n")
	}
	file := filepath.Join("testdata", "statements.sql")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	}
	golden, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(golden), text.String())
}

// Babelfish ignores lock hints, so a statement that needs a hint would be correct only by chance.
func TestNoStatementHasALockHint(t *testing.T) {
	hint := regexp.MustCompile(`(?i)\bWITH\s*\(|\bOPTION\s*\(|NOLOCK|UPDLOCK|HOLDLOCK|ROWLOCK|READPAST|SERIALIZABLE`)
	for name, text := range batches() {
		require.NotRegexp(t, hint, text, name)
	}
}

// T293, T294: each batch that changes a lease is one transaction, which ends with the last statement. It has conditions on the
// version, the token and the ID, and two on the clock.
func TestTrap_T294_ChangesAreWholeTransactions(t *testing.T) {
	all := batches()
	for _, name := range []string{"insert", "update", "update with two entries", "renew 2"} {
		require.Regexp(t, `(?s)^BEGIN TRANSACTION;\n.*\nIF @written = @p\d+ AND DATEDIFF_BIG\([^;]*SYSUTCDATETIME\(\)\) < @p\d+ COMMIT TRANSACTION ELSE BEGIN ROLLBACK TRANSACTION; SET @written = 0 END$`, all[name], name)
		require.Equal(t, 1, strings.Count(all[name], "COMMIT"), name)
	}
	for _, name := range []string{"update", "renew 2"} {
		for _, condition := range []string{`END = (@p\d+|r\.version)`, `l\.token = (@p\d+|r\.token)`, `l\.id = (@p\d+|r\.id COLLATE Latin1_General_100_BIN2)`, `SYSUTCDATETIME\(\)\) < @p\d+;`} {
			require.Regexp(t, `(?s)WHERE .*`+condition, all[name], name)
		}
	}
}

// T294: an insert requires that no greater token was forgotten.
func TestTrap_T294_AnInsertObeysTheFloor(t *testing.T) {
	require.Regexp(t, `WHERE NOT EXISTS \(SELECT 1 FROM \S+ AS f WHERE f\.name = 0x AND f\.token > @p15\);`, batches()["insert"])
}

// T295: the clock shows the same time throughout a statement, so a read has separate statements for its clock readings
// before and after the row.
func TestTrap_T295_AReadHasTwoClocks(t *testing.T) {
	statements := strings.Split(batches()["read"], ";\n")
	require.Len(t, statements, 4)
	const clock = "SYSUTCDATETIME()"
	require.Regexp(t, `^DECLARE @start bigint = DATEDIFF_BIG\(.*SYSUTCDATETIME\(\)\), `, statements[0])
	require.NotContains(t, statements[1]+statements[2], clock)
	require.Regexp(t, `@start, DATEDIFF_BIG\(.*SYSUTCDATETIME\(\)\), @floor$`, statements[3])
}

func TestParametersAreNumbered(t *testing.T) {
	name, args := "n", []any{"n", 1}
	text, all := nameParameters("name = ?b AND n = ? AND m = ?b", append(args, &name))
	require.Equal(t, "name = @p1 AND n = @p2 AND m = @p3", text)
	require.Equal(t, []any{[]byte("n"), 1, []byte("n")}, all)
	require.Equal(t, []any{"n", 1}, args, "the caller's are unchanged")
	_, all = nameParameters("?b", []any{""})
	require.Equal(t, []any{[]byte{}}, all, "an empty text is not NULL")
}
