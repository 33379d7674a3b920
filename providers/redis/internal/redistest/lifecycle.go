package redistest

import (
	"context"
	"errors"
)

// Kill ends the server at once, as kill -9 or a power cut does, and waits for
// its end. A server that has ended stays so.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.kill()
}

// Pause freezes the server (SIGSTOP): its connections stay open and nothing
// answers. It returns when the server has stopped.
func (s *Server) Pause() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := bounded(s.t)
	defer cancel()
	err := pause(s.process.os)
	if err == nil {
		err = until(ctx, s.process, s.paused)
	}
	if err != nil {
		s.t.Fatalf("pausing the server on %s: %v", s.Addr(), err)
	}
}

func (s *Server) paused(context.Context) error {
	if !isPaused(s.process.os.Pid) {
		return errors.New("it still runs")
	}
	return nil
}

// Resume lets a paused server go on (SIGCONT). It then does what was asked of it
// in the meantime.
func (s *Server) Resume() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := resume(s.process.os); err != nil {
		s.t.Fatalf("resuming the server on %s: %v", s.Addr(), err)
	}
}

// Restart shuts the server down, if it still runs, and starts it on the same
// port. It has its data again if [Options.Persist] says so, and none
// otherwise.
func (s *Server) Restart() {
	s.t.Helper()
	s.restart(func() error { return nil })
}

// RestartEmpty is Restart without the data, whatever [Options.Persist] says: a
// machine whose disk was lost. A cluster's node remains one.
func (s *Server) RestartEmpty() {
	s.t.Helper()
	s.restart(s.forget)
}

func (s *Server) restart(between func() error) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.shutdown()
	ctx, cancel := bounded(s.t)
	defer cancel()
	err := between()
	if err == nil {
		err = s.reclaim(ctx)
	}
	if err != nil {
		s.t.Fatalf("restarting the server on %s: %v", s.Addr(), err)
	}
}

// reclaim starts the server on its old port, and waits while another process
// has it.
func (s *Server) reclaim(ctx context.Context) error {
	var final error
	err := until(ctx, nil, func(ctx context.Context) error {
		final = s.run(ctx)
		if errors.Is(final, errPortTaken) {
			return final
		}
		return nil
	})
	return errors.Join(err, final)
}
