//go:build !linux

package providerkit

import "syscall"

var userTimeout func(network, address string, raw syscall.RawConn) error
