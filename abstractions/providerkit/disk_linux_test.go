package providerkit

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocalDiskTellsNetworkFileSystems(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, LocalDisk(folder))
	require.ErrorIs(t, LocalDisk(filepath.Join(folder, "none")), fs.ErrNotExist)
	var stat syscall.Statfs_t
	require.NoError(t, syscall.Statfs(folder, &stat))
	network[uint32(stat.Type)] = "this one"
	defer delete(network, uint32(stat.Type))
	err := LocalDisk(folder)
	require.ErrorIs(t, err, ErrNetworkDisk)
	require.ErrorContains(t, err, "this one")
}
