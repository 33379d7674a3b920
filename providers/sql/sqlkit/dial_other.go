//go:build !linux

package sqlkit

import "syscall"

func userTimeout(string, string, syscall.RawConn) error { return nil }
