package servertest

import (
	"os"
	"strings"
	"testing"
)

// required is set by scripts/with-servers.
const required = "LEASING_TEST_REQUIRED"

// Require returns the value of an environment variable that names a server, or a program, that a test needs:
// LEASING_TEST_REDIS, for example. Without the value the test skips, and the text gives the command that starts the server.
// In scripts/with-servers, which sets LEASING_TEST_REQUIRED, the test fails. Consul and Kubernetes take minutes to build, and
// their tests skip in either case.
func Require(t testing.TB, variable string) string {
	t.Helper()
	value := strings.TrimSpace(os.Getenv(variable))
	if value != "" {
		return value
	}
	server := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, "LEASING_TEST_")), "_", "")
	built := server == "consul" || server == "kubernetes"
	text := variable + " is not set: run scripts/with-servers " + server + " -- go test, or set the variable as CONTRIBUTING.md says"
	if os.Getenv(required) != "" && !built {
		t.Fatal(text)
	}
	t.Skip(text)
	return ""
}
