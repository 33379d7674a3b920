package servertest

import (
	"os"
	"strings"
	"testing"
)

// required is set by scripts/with-servers.
const required = "LEASING_TEST_REQUIRED"

// Require returns the value of an environment variable that names a server, or a program, that a test needs:
// LEASING_TEST_REDIS, for example. Without the value the test skips, and the skip message gives the command that starts the server.
// Under scripts/with-servers, which sets LEASING_TEST_REQUIRED, the test fails. Consul and Kubernetes take minutes to build, and no
// script starts SQL Server: their tests skip in either case.
func Require(t testing.TB, variable string) string {
	t.Helper()
	value := strings.TrimSpace(os.Getenv(variable))
	if value != "" {
		return value
	}
	server := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, "LEASING_TEST_")), "_", "")
	text := variable + " is not set: run scripts/with-servers " + server + " -- go test, or set the variable as CONTRIBUTING.md says"
	optional := server == "consul" || server == "kubernetes"
	if server == "sqlserver" {
		text, optional = variable+" is not set: set the variable as CONTRIBUTING.md says", true
	}
	if os.Getenv(required) != "" && !optional {
		t.Fatal(text)
	}
	t.Skip(text)
	return ""
}
