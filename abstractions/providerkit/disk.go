package providerkit

import "errors"

// ErrNetworkDisk says that a folder is on a file system where locks and renames of
// one process may be invisible to others.
var ErrNetworkDisk = errors.New("leases need a local disk, and this is a network file system or one in user space")
