//go:build !linux

package torture

import "os/exec"

func orphansDie(*exec.Cmd) {}
