//go:build !unix

package cli

func checkAddressSpace() error { return nil }
