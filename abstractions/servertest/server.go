package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// ErrPortTaken means that another process has the port.
var ErrPortTaken = errors.New("another process has the port")

// Server is a program on a loopback port, which it keeps across restarts. Set
// the exported fields before it starts.
type Server struct {
	T   testing.TB
	Dir string // the folder for the files with the server's output
	// Prepare, unless nil, is called when a port has been chosen, before the first start
	// on that port.
	Prepare func() error
	// Command returns the command for one start of the server.
	Command func() (*exec.Cmd, error)
	// Answers returns nil when the server is ready.
	Answers func(context.Context) error

	mu      sync.Mutex // guards the fields below while the server starts or ends
	port    int
	process *Process // the latest process, or nil
	runs    int
}

// Tool returns the path of a program that the go.mod in folder pins as a tool, and builds the program unless it is in
// the build cache. If the environment variable is set, it names the program instead.
func Tool(t testing.TB, variable, folder, name string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", name)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	path, err := cmd.Output()
	if err != nil {
		t.Fatalf("go tool -n %s, in %s: %v", name, folder, err)
	}
	return strings.TrimSpace(string(path))
}

// Launch starts the server for the first time, on a free port, and waits until it
// answers.
func (s *Server) Launch(ctx context.Context) error {
	for {
		port, err := FreePort(ctx)
		if err != nil {
			return err
		}
		if err := s.LaunchOn(ctx, port); !errors.Is(err, ErrPortTaken) || ctx.Err() != nil {
			return err
		}
	}
}

// LaunchOn is Launch on a port that the caller has chosen.
func (s *Server) LaunchOn(ctx context.Context, port int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.port = port
	if s.Prepare != nil {
		if err := s.Prepare(); err != nil {
			return err
		}
	}
	return s.run(ctx)
}

// run starts a process on the server's port and waits until it answers. Caller
// holds mu.
func (s *Server) run(ctx context.Context) error {
	cmd, err := s.Command()
	if err != nil {
		return err
	}
	s.runs++
	out, err := os.Create(filepath.Join(s.Dir, fmt.Sprintf("log-%d", s.runs)))
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = out, out
	p, err := StartProcess(cmd)
	if err := errors.Join(err, out.Close()); err != nil { // the process has its own copy
		return err
	}
	s.process = p
	if err := until(ctx, p.Done(), s.Answers); err != nil {
		p.Kill()
		text := s.Printed()
		if strings.Contains(text, "Address already in use") || strings.Contains(text, "EADDRINUSE") {
			return ErrPortTaken
		}
		return fmt.Errorf("%w; it printed:\n%s", err, text)
	}
	return nil
}

// Port returns the server's port.
func (s *Server) Port() int { return s.port }

// Addr returns the server's address, "127.0.0.1:port".
func (s *Server) Addr() string { return loopback(s.port) }

// PID returns the process ID of the last process.
func (s *Server) PID() int { return s.process.PID() }

// Printed returns the end of the last process's output.
func (s *Server) Printed() string {
	text, err := os.ReadFile(filepath.Join(s.Dir, fmt.Sprintf("log-%d", s.runs)))
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return string(text[max(0, len(text)-most):])
}

// Kill ends the server at once, like kill -9 or a power cut, and waits for its end. Kill does
// nothing if the server has ended.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Kill()
	}
}

// Close kills the server, and logs its output if the test has failed.
func (s *Server) Close() {
	s.Kill()
	if s.process != nil && s.T.Failed() {
		s.T.Logf("the last output of the server on %s:\n%s", s.Addr(), s.Printed())
	}
}

// Restart kills the server, if it still runs, and starts it on the same port.
// Restart waits while another process has the port.
func (s *Server) Restart() {
	s.T.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.Kill()
	ctx, cancel := Bounded(s.T)
	defer cancel()
	err := s.run(ctx)
	for errors.Is(err, ErrPortTaken) && ctx.Err() == nil {
		err = s.run(ctx)
	}
	if err != nil {
		s.T.Fatalf("restarting the server on %s: %v", s.Addr(), err)
	}
}

// Pause freezes the server (SIGSTOP): its connections stay open and get no answers. Pause returns
// when the server has stopped.
func (s *Server) Pause() {
	s.T.Helper()
	s.signal((*Process).Pause)
}

// Resume continues a paused server (SIGCONT).
func (s *Server) Resume() {
	s.T.Helper()
	s.signal((*Process).Resume)
}

func (s *Server) signal(send func(*Process) error) {
	s.T.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := send(s.process); err != nil {
		s.T.Fatalf("the server on %s: %v", s.Addr(), err)
	}
}
