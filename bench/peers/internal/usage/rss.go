package usage

import (
	"bytes"
	"os"
	"strconv"
)

// RSS returns the memory of this process that is resident, in bytes, and
// whether the system tells: Linux does, in /proc/self/statm (man 5 proc_pid_statm).
func RSS() (int64, bool) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	return parseStatm(text)
}

// parseStatm takes the second field, which counts pages.
func parseStatm(text []byte) (int64, bool) {
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, false
	}
	return pages * int64(os.Getpagesize()), true
}
