//go:build !linux

package azuritetest

import "syscall"

func orphanAttr() *syscall.SysProcAttr { return nil }
