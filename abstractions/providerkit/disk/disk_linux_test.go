package disk

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocalDiskRecognizesNetworkFileSystems(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, Local(folder))
	require.ErrorIs(t, Local(filepath.Join(folder, "none")), fs.ErrNotExist)
	file := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorIs(t, Local(file), syscall.ENOTDIR)
	require.NoError(t, LocalFile(file))
	var stat syscall.Statfs_t
	require.NoError(t, syscall.Statfs(folder, &stat))
	networkKinds[uint32(stat.Type)] = "this one"
	defer delete(networkKinds, uint32(stat.Type))
	for _, err := range []error{Local(folder), LocalFile(file), LocalFile(filepath.Join(folder, "none"))} {
		require.ErrorIs(t, err, ErrNetwork)
		require.ErrorContains(t, err, "this one")
	}
}

// A link is followed to the real file, whether the file exists or not.
func TestLocalFileFollowsLinks(t *testing.T) {
	folder := t.TempDir()
	link, second := filepath.Join(folder, "link"), filepath.Join(folder, "second")
	require.NoError(t, os.Symlink("/proc/nothing", link)) // a file system without a disk
	require.NoError(t, os.Symlink("link", second))
	for _, path := range []string{link, second, "/proc/self/status"} {
		require.ErrorIs(t, LocalFile(path), ErrNetwork, path)
	}
	require.NoError(t, os.Symlink("loop", filepath.Join(folder, "loop")))
	require.Error(t, LocalFile(filepath.Join(folder, "loop")))
}

// PC8: a kind of file system that no list contains is refused if it has no disk.
func TestSharedFileSystemsByKindAndDevice(t *testing.T) {
	const disk, none = 8<<8 | 1, 0x2a
	for _, c := range []struct {
		kind   uint32
		device uint64
		want   string
	}{
		{0xef53, disk, ""},                  // ext4
		{0x58465342, 259 << 8, ""},          // XFS
		{0x9123683e, none, ""},              // Btrfs
		{0x01021994, none, ""},              // tmpfs
		{0x794c7630, none, ""},              // overlay
		{0x12345678, 1<<44 | disk, ""},      // of an unlisted kind, on a disk
		{0x6969, none, "NFS"},               //
		{0x65735546, disk, "FUSE"},          // fuseblk
		{0x786f4256, none, "VirtualBox"},    //
		{0xbacbacbc, none, "VMware"},        //
		{0x6b414653, none, "kAFS"},          //
		{0x19830326, none, "BeeGFS"},        //
		{0x7461636f, disk, "OCFS2"},         // a disk that hosts share
		{0x12345678, none, "unknown"},       // of an unlisted kind
		{0x12345678, 0x2a << 20, "unknown"}, // of an unlisted kind, with a large minor number
	} {
		name := sharedFileSystem(c.kind, c.device)
		require.Equal(t, c.want == "", name == "", "%#x: %s", c.kind, name)
		require.Contains(t, name, c.want)
	}
}
