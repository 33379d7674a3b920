package providerkit

import "errors"

// ErrNetworkDisk is of a folder where what one process locks or renames another one
// may not see.
var ErrNetworkDisk = errors.New("leases need a local disk, and this is a network file system or one in user space")
