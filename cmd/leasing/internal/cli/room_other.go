//go:build !unix

package cli

func roomForSqlite() error { return nil }
