package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// await waits until check returns nil for the server.
func (s *Server) await(failure string, check func(context.Context, *Server) error) {
	s.T.Helper()
	servertest.Eventually(s.T, s.Addr()+": "+failure, func(ctx context.Context) error { return check(ctx, s) })
}

// hasInfo returns nil when a section of the server's INFO has all these lines.
func (s *Server) hasInfo(ctx context.Context, section string, lines ...string) error {
	if err := s.reachable(ctx); err != nil {
		return err
	}
	text, err := s.admin.Info(ctx, section).Result()
	if err != nil {
		return err
	}
	return missingLines(text, lines)
}

// missingLines returns nil when a reply of Redis has all these lines.
func missingLines(text string, lines []string) error {
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\r\n") {
			return fmt.Errorf("no %s in:\n%s", line, text)
		}
	}
	return nil
}

// reachable dials the server before the client does: go-redis logs failed dials, and
// after some of them keeps a goroutine dialling for a second after Close.
func (s *Server) reachable(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	return conn.Close()
}

// answers returns nil when this server listens and has loaded its data. Another server
// on the same port would refuse the client's password.
func (s *Server) answers(ctx context.Context) error {
	if err := s.reachable(ctx); err != nil {
		return err
	}
	return s.admin.Ping(ctx).Err()
}

// checkReplica returns nil for a replica that is up to date with its master.
func checkReplica(ctx context.Context, s *Server) error {
	return s.hasInfo(ctx, "replication", "role:slave", "master_link_status:up")
}

func isMaster(ctx context.Context, s *Server) error {
	return s.hasInfo(ctx, "replication", "role:master")
}
