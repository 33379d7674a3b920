package disk

import (
	"fmt"
	"os"
	"syscall"
)

// networkKinds lists the file systems that more than one host may see, or whose locks and renames a program
// implements. The numbers are from linux/magic.h, statfs(2), fs/vboxsf/super.c and coreutils' src/stat.c.
var networkKinds = map[uint32]string{
	0x6969: "NFS", 0x6e667364: "NFSD", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x564c: "NCP",
	0x5346414f: "AFS", 0x6b414653: "kAFS", 0x73757245: "Coda", 0x00c36400: "Ceph", 0x0bd00bd0: "Lustre", 0x19830326: "BeeGFS",
	0x20030528: "OrangeFS", 0xaad7aaea: "PanFS", 0x013111a8: "IBRIX", 0xbeefdead: "StorNext",
	0x47504653: "GPFS", 0x01161970: "GFS2", 0x7461636f: "OCFS2", 0x61636673: "ACFS", 0xa501fcf5: "VxFS",
	0x01021997: "9P", 0x65735546: "FUSE", 0x786f4256: "VirtualBox's shared folders", 0xbacbacbc: "VMware's shared folders",
	0x7c7c6673: "Parallels' shared folders", 0x00c0ffee: "hostfs",
}

// devicelessKinds lists the file systems of one host that have no block device of their own. A file system of any
// other kind without a block device may come over a network.
var devicelessKinds = map[uint32]bool{
	0x01021994: true, // tmpfs
	0x858458f6: true, // ramfs
	0x794c7630: true, // overlay
	0x61756673: true, // aufs
	0xf15f:     true, // eCryptfs
	0x9123683e: true, // Btrfs
	0x2fc12fc1: true, // ZFS
	0xca451a4e: true, // bcachefs
	0x24051905: true, // UBIFS
	0x72b6:     true, // JFFS2
}

// Local returns nil if path is a folder on a disk of this host. Otherwise the error gives
// the reason, and matches ErrNetwork if other hosts may see the folder.
func Local(path string) error { return localDisk(path + "/") }

func localDisk(path string) error {
	var kind syscall.Statfs_t
	if err := syscall.Statfs(path, &kind); err != nil {
		return &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if name := sharedFileSystem(uint32(kind.Type), uint64(stat.Dev)); name != "" { //nolint:unconvert // 32 bits on some architectures
		return fmt.Errorf("%s is on %s: %w", path, name, ErrNetwork)
	}
	return nil
}

// sharedFileSystem returns the name of a file system that other hosts may see, by its kind and its device, or "".
// The kernel gives major number 0 to a file system without a block device
// (Documentation/admin-guide/devices.txt).
func sharedFileSystem(kind uint32, device uint64) string {
	name := networkKinds[kind]
	if major := device>>8&0xfff | device>>32&^0xfff; name == "" && major == 0 && !devicelessKinds[kind] {
		name = fmt.Sprintf("a file system of unknown kind %#x without a disk", kind)
	}
	return name
}
