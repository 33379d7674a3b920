//go:build !unix

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "election: this demo pauses processes with SIGSTOP, which only Unix systems have")
	os.Exit(1)
}
