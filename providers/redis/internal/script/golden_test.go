package script

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the scripts to testdata")

// testdata has the scripts as servers receive them, so that each can be read on its own, and a
// change to a part is visible in every script with that part. `go test ./internal/script -update`
// writes the files.
func TestComposedScripts(t *testing.T) {
	scripts := map[string]*Program{
		"acquire": Acquire, "renew": Renew, "release": Release, "break": Break, "inspect": Inspect, "who": Waiting, "leave": Leave,
		"vote": Vote, "confirm": Confirm, "undo": Undo, "relock": Relock,
	}
	for name, p := range scripts {
		path := filepath.Join("testdata", name+".lua")
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(p.Text), 0o600))
		}
		golden, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(golden), p.Text, "%s: see -update", name)
	}
	files, err := filepath.Glob("testdata/*.lua")
	require.NoError(t, err)
	require.Len(t, files, len(scripts))
}
