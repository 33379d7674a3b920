//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// Each command that shows a record escapes the invisible runes that another process has put into the record, in
// text and in JSON. The JSON still decodes to the original record.
func TestTrap_T270_NoCommandPrintsWhatCannotBeSeen_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	const owner, reason, name = "op\u202eA\u2066", "e\u200b\U000e0041\u0301", "jobs/x\u202ey"
	code, _, problems := p.run("acquire", "--owner", owner, "--reason", reason, name)
	require.Zero(t, code, problems)
	for _, args := range [][]string{
		{"ls"}, {"inspect", name}, {"watch", "--for", "100ms"}, {"history", name}, {"acquire", name}, {"doctor"}, {"break", "--yes", name},
	} {
		for _, format := range []string{"table", "json"} {
			_, out, problems := p.run(append(args, "-o", format)...)
			require.NotEmpty(t, out+problems)
			for line := range strings.Lines(out + problems) {
				require.Equal(t, strings.TrimSuffix(line, "\n"), output.Inert(strings.TrimSuffix(line, "\n")), "%q -o %s", args, format)
			}
			if format == "json" && (args[0] == "ls" || args[0] == "inspect") {
				var record output.Record
				require.NoError(t, json.Unmarshal([]byte(out), &record))
				require.Equal(t, []string{name, owner}, []string{record.Name, record.Owner})
			}
		}
	}
}
