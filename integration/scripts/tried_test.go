package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTrap_T195_TheTableOfServersIsTrue compares docs/providers/README.md with the server versions that the tests use.
func TestTrap_T195_TheTableOfServersIsTrue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "providers", "README.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "## Servers of the tests")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	stated := map[string]string{} // the version, by server
	for _, row := range regexp.MustCompile(`(?m)^\| [^|]* \| ([^|]*) \| [^|]* \| ([^|]*) \|$`).FindAllStringSubmatch(table, -1) {
		stated[row[1]] = row[2]
	}
	for server, pin := range map[string]struct{ file, pattern string }{
		"Azurite":                 {"scripts/servers/azurite.sh", `azurite_version=(\S+)`},
		"@vercel/cosmosdb-server": {"scripts/servers/cosmosnpm.sh", `cosmosnpm_version=(\S+)`},
		"versitygw":               {"integration/tools/s3/go.mod", `versity/versitygw (\S+)`},
		"gofakes3":                {"integration/tools/s3/go.mod", `johannesboyne/gofakes3 (\S+)`},
		"etcd":                    {"integration/tools/etcd/go.mod", `go.etcd.io/etcd/server/v3 (v\S+)`},
		"Consul":                  {"integration/tools/consul/go.mod", `hashicorp/consul (\S+)`},
		"API server":              {"integration/tools/kubernetes/go.mod", `k8s.io/kubernetes (\S+)`},
		"go-sqlite3":              {"providers/sql/sqlite/go.mod", `ncruces/go-sqlite3 (\S+)`},
	} {
		t.Run(server, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root, pin.file))
			require.NoError(t, err)
			version := regexp.MustCompile(pin.pattern).FindSubmatch(text)
			require.NotNil(t, version, "%s pins it", pin.file)
			require.Equal(t, string(version[1]), stated[server])
		})
	}
	// The package manager of the machine chooses the versions of the other servers.
	for server, program := range map[string]string{"Redis": "redis-server", "PostgreSQL": "postgres", "MariaDB": "mariadbd"} {
		t.Run(server, func(t *testing.T) {
			require.NotEmpty(t, stated[server])
			said, err := exec.CommandContext(t.Context(), program, "--version").Output()
			if err != nil {
				t.Skipf("no %s on the path: %v", program, err)
			}
			version := regexp.MustCompile(`\d+\.\d+(\.\d+)?`).FindString(string(said))
			if version != stated[server] {
				t.Skipf("this machine has %s %s, and the table names %s", server, version, stated[server])
			}
		})
	}
}
