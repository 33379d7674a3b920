//go:build !linux

package netdial

import "syscall"

var userTimeout func(network, address string, raw syscall.RawConn) error
