package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/redis/go-redis/v9"
)

// Server is a redis-server, or a sentinel. With [Options.Persist] it keeps its data
// across a Restart.
type Server struct {
	servertest.Server
	options Options
	role    []string // lines of its configuration, in addition to the options
	args    []string // arguments before Options.Args
	secret  string   // of the user harness
	tls     *servertest.Certificate
	node    bool // of a cluster

	bus   int
	admin *redis.Client // of the user harness
}

// Start starts a server and waits until it answers.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	return StartMany(t, 1, options)[0]
}

// StartMany starts n independent servers.
func StartMany(t testing.TB, n int, options Options) []*Server {
	t.Helper()
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = newServer(t, options)
	}
	startAll(t, servers)
	return servers
}

// newServer prepares a server that will end with the test.
func newServer(t testing.TB, options Options) *Server {
	t.Helper()
	servertest.Require(t, "LEASING_TEST_REDIS")
	s := &Server{options: options, role: roleOf(options), secret: rand.Text()}
	s.Server = servertest.Server{T: t, Dir: t.TempDir(), Prepare: s.prepare, Command: s.command, Answers: s.answers}
	if options.TLS {
		var err error
		if s.tls, err = servertest.NewCertificate(s.Dir); err != nil {
			t.Fatalf("a certificate for a test server: %v", err)
		}
	}
	t.Cleanup(func() {
		s.closeAdmin()
		s.Close()
	})
	return s
}

// startAll starts servers at the same time.
func startAll(t testing.TB, servers []*Server) {
	t.Helper()
	ctx, cancel := servertest.Bounded(t)
	defer cancel()
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { errs[i] = s.Launch(ctx) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("a test server did not start: %v", err)
	}
}

// prepare writes the configuration for the chosen port. The server may rewrite the
// file later.
func (s *Server) prepare() (err error) {
	if s.node {
		if s.bus, err = servertest.FreePort(context.Background()); err != nil {
			return err
		}
	}
	s.closeAdmin() // the client of an earlier try, whose port was taken
	s.admin = s.newClient(harness, s.secret)
	return os.WriteFile(filepath.Join(s.Dir, "redis.conf"), []byte(s.configuration()), 0o600)
}

func (s *Server) closeAdmin() {
	if s.admin != nil {
		_ = s.admin.Close()
	}
}

const programVariable = "REDIS_SERVER"

var errNoProgram = errors.New("no redis-server: these tests start, kill and pause servers of their own, " +
	"also where LEASING_TEST_REDIS names a running one; install it (apt-get install redis-server), " +
	"or set " + programVariable + " to the path of the program")

// command returns redis-server with its arguments.
func (s *Server) command() (*exec.Cmd, error) {
	name := os.Getenv(programVariable)
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, errors.Join(errNoProgram, err)
	}
	args := []string{filepath.Join(s.Dir, "redis.conf")}
	if s.tls == nil {
		args = append(args, "--port", fmt.Sprint(s.Port()))
	} else { // clients need no certificate
		args = append(args, "--port", "0", "--tls-port", fmt.Sprint(s.Port()), "--tls-auth-clients", "no",
			"--tls-cert-file", s.tls.Cert, "--tls-key-file", s.tls.Key, "--tls-ca-cert-file", s.tls.Cert)
	}
	args = append(append(args, s.args...), s.options.Args...)
	return exec.Command(path, args...), nil //nolint:noctx // Kill ends the process and waits for its exit
}

// RestartEmpty is Restart without the data, whatever [Options.Persist] says, as after the
// loss of a machine's disk. A cluster's node stays in its cluster.
func (s *Server) RestartEmpty() {
	s.T.Helper()
	s.Kill()
	// The other files stay: nodes.conf of a cluster's node, for example, contains its identity.
	for _, name := range []string{"appendonlydir", "dump.rdb"} {
		if err := os.RemoveAll(filepath.Join(s.Dir, name)); err != nil {
			s.T.Fatal(err)
		}
	}
	s.Restart()
}
