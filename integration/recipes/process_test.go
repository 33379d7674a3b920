package recipes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// jobs are the functions of processes that a test starts, by the name of the job.
// The description of a job is JSON.
var jobs = map[string]func(description []byte) error{"edit": edit, "operate": operate, "share": share}

// jobVariable is the environment variable that has a process's job.
const jobVariable = "LEASING_TEST_JOB"

// TestMain is also the entry point of the processes that tests start.
func TestMain(m *testing.M) {
	if name, description, has := strings.Cut(os.Getenv(jobVariable), " "); has {
		if err := jobs[name]([]byte(description)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// start starts this program once more, in a folder, for a job.
func start(t *testing.T, folder, name string, description any) *servertest.Process {
	return run(t, &exec.Cmd{Dir: folder}, name, description)
}

func run(t *testing.T, cmd *exec.Cmd, name string, description any) *servertest.Process {
	text, err := json.Marshal(description)
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	cmd.Path, cmd.Args = program, []string{program}
	cmd.Env, cmd.Stderr = append(os.Environ(), jobVariable+"="+name+" "+string(text)), os.Stderr
	process, err := servertest.StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = process.Close() })
	return process
}
