package sqlitelease

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// The pipe of a killed process is removed when another process begins to listen.
func TestSqlitePipesOfDeadProcessesAreRemoved(t *testing.T) {
	ctx := bounded(t)
	path := filepath.Join(t.TempDir(), "leases [1].db")
	p, other := openTest(t, "sqlite://"+path, nil), openTest(t, "sqlite://"+path, nil)
	require.NoError(t, p.Ping(ctx))
	_, err := p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: "alive"})
	require.NoError(t, err)
	live := pipeOf(p, path)
	dead, young := pipePath(path, "01"), pipePath(path, "02")
	for _, left := range []string{dead, young} {
		pipe, err := makePipe(path, "09", nil)
		require.NoError(t, err)
		require.NoError(t, os.Rename(pipe.path, left))
		require.NoError(t, pipe.file.Close())
	}
	old := time.Now().Add(-time.Hour)
	for _, path := range []string{dead, live} {
		require.NoError(t, os.Chtimes(path, old, old))
	}
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	_, err = other.Wait(waiting, abstractions.WaitRequest{Name: "n", ID: "another"})
	require.NoError(t, err)
	require.NoFileExists(t, dead)
	require.FileExists(t, young, "its process may be about to listen")
	require.FileExists(t, live)
	require.NoError(t, other.Close())
	require.NoFileExists(t, pipeOf(other, path))
}
