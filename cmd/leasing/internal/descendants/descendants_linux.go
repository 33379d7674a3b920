package descendants

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// AdoptsOrphans is true on Linux, so no descendant escapes.
const AdoptsOrphans = true

// AdoptOrphans makes this process the parent of descendants whose own parent has ended, or stops
// doing so (PR_SET_CHILD_SUBREAPER, prctl(2)).
func AdoptOrphans(on bool) {
	value := uintptr(0)
	if on {
		value = 1
	}
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, value, 0, 0, 0) // fails only before Linux 3.4
}

// Visit visits the descendants of a process, parents before their children, and leaves out the descendants of a
// process for which visit returns false. A process that starts or loses its parent during the visit may be
// missed, so callers repeat the visit until it finds no new process.
func Visit(root, _ int, visit func(pid int) bool) {
	children := childrenByTask
	if _, err := os.Stat("/proc/thread-self/children"); errors.Is(err, fs.ErrNotExist) {
		children = childrenByParent() // a kernel without CONFIG_PROC_CHILDREN
	}
	seen := map[int]bool{root: true}
	for all := []int{root}; len(all) > 0; all = all[1:] {
		for _, child := range children(all[0]) {
			if !seen[child] {
				seen[child] = true
				if visit(child) {
					all = append(all, child)
				}
			}
		}
	}
}

// childrenByTask reads the children of a process, including zombies, from its threads' files (proc_pid_task(5)).
func childrenByTask(pid int) (all []int) {
	folder := fmt.Sprintf("/proc/%d/task/", pid)
	tasks, _ := os.ReadDir(folder) // fails when the process has ended
	for _, task := range tasks {
		text, _ := os.ReadFile(folder + task.Name() + "/children")
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// childrenByParent reads the parents of all processes (proc_pid_stat(5)), and returns a function that looks up
// children.
func childrenByParent() func(pid int) []int {
	children := map[int][]int{}
	processes, _ := os.ReadDir("/proc")
	for _, process := range processes {
		pid, err := strconv.Atoi(process.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile("/proc/" + process.Name() + "/stat")
		var state string
		var parent int
		_, rest, _ := strings.Cut(string(text[max(0, strings.LastIndexByte(string(text), ')')):]), ")")
		if n, _ := fmt.Sscan(rest, &state, &parent); n == 2 {
			children[parent] = append(children[parent], pid)
		}
	}
	return func(pid int) []int { return children[pid] }
}
