// Package livefile reads files again when they change: certificates of authorities, certificates and
// keys of clients, tokens, and passwords, which operators replace while a process runs.
//
// A Value keeps the result of parsing some files. Get asks the file system for the state of each file,
// and reads all of them again if one was replaced by another file, or has another size or another time
// of modification. If a file changed less than two seconds before a read, Get reads the file once
// more, since a later change may have the same time. Get follows symbolic links, so it sees the swap
// of a directory that Kubernetes makes when a mounted secret changes
// (kubernetes.io/docs/concepts/configuration/secret, "Mounted Secrets are updated automatically").
//
// Contents that can't be read or parsed do not replace the last good value: Get continues to return
// that value, and Stale returns the reason. A certificate and its key may therefore be replaced one
// after the other. A pipe or a device is read once.
//
// A Source is a secret from a file or from a function of the application.
//
// TLS makes configurations for new connections from such files. A connection that is open keeps the
// configuration of its handshake.
package livefile
