//go:build !unix

package sqlsequence

// asWriter does nothing: the torture runs, whose writers are processes of their own, need a Unix system.
func asWriter() {}
