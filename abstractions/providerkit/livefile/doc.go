// Package livefile reads files again when they change: certificates of authorities, certificates and
// keys of clients, tokens, and passwords, which operators replace while a process runs.
//
// A Value keeps the result of parsing some files. Get asks the file system for the state of each file,
// and reads all of them again if one is another file, has another size, or another time of
// modification. A file that changed less than two seconds before it was read is read once more, since
// a later change may carry the same time. Get follows symbolic links, so it sees the swap of a
// directory that Kubernetes makes when a mounted secret changes
// (kubernetes.io/docs/concepts/configuration/secret, "Mounted Secrets are updated automatically").
//
// Contents that can't be read or parsed replace nothing: Get returns the last good value, and Stale
// tells why. A certificate and its key may therefore be replaced one after the other. A pipe or a
// device is read once.
//
// A Source is a secret of a file or of a function of the application's.
//
// TLS makes configurations for new connections from such files. A connection that is open keeps the
// configuration of its handshake.
package livefile
