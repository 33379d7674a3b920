package redistest

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// process is a program that runs until it ends by itself or is killed.
type process struct {
	os  *os.Process
	log string        // the file of what it prints
	end chan struct{} // closed when it has ended
}

// startProcess runs a program. It gets no signals meant for the tests, such as
// Ctrl-C's, and dies with their process.
func startProcess(path string, args []string, log string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...) //nolint:noctx // it ends by Kill, whose caller waits for it
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = orphanAttr()
	p := &process{log: log, end: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that
		// forked ends (prctl(2)), so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer close(p.end)
		defer out.Close() //nolint:errcheck // nobody can use the news
		err := cmd.Start()
		p.os = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	return p, <-started
}

// kill ends the process, also one that is paused, and waits for it.
func (p *process) kill() {
	_ = p.os.Kill() // fails only when it has ended
	<-p.end
}

// shutdown asks the process to end and, after a while, makes it.
func (p *process) shutdown() {
	timer := time.NewTimer(15 * time.Second)
	defer timer.Stop()
	if terminate(p.os) == nil {
		select {
		case <-p.end:
			return
		case <-timer.C:
		}
	}
	p.kill()
}

func (p *process) ended() bool {
	select {
	case <-p.end:
		return true
	default:
		return false
	}
}

// tail is the end of what the process has printed.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return string(text[max(0, len(text)-most):])
}

const (
	programVariable = "REDIS_SERVER"
	programDefault  = "redis-server"
)

var errNoProgram = errors.New("no redis-server: these tests start, kill and pause servers of their own, " +
	"also where LEASING_TEST_REDIS names a running one; install it (apt-get install redis-server), " +
	"or set " + programVariable + " to the path of the program")

// program is the path of redis-server.
func program() (string, error) {
	name := os.Getenv(programVariable)
	if name == "" {
		name = programDefault
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.Join(errNoProgram, err)
	}
	return path, nil
}
