package azuritetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// version is the one that scripts/servers/azurite.sh names too.
	version         = "3.35.0"
	programVariable = "AZURITE"
)

var errNoProgram = errors.New("no Azurite: these tests start, kill and pause servers of their own, also where " +
	"LEASING_TEST_AZURITE names a running one; run scripts/with-servers azurite -- true, which fetches it, " +
	"or set " + programVariable + " to the path of its dist/src/blob/main.js")

// program is the path of node, and that of Azurite's blob service.
func program() (node, main string, err error) {
	if node, err = exec.LookPath("node"); err != nil {
		return "", "", fmt.Errorf("%w: Azurite runs on Node 20: %w", errNoProgram, err)
	}
	if main = os.Getenv(programVariable); main == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", "", errors.Join(errNoProgram, err)
		}
		main = filepath.Join(cache, "leasing", "azurite-"+version, "node_modules", "azurite", "dist", "src", "blob", "main.js")
	}
	if _, err := os.Stat(main); err != nil {
		return "", "", errors.Join(errNoProgram, err)
	}
	return node, main, nil
}
