package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server, or a sentinel, on a loopback port that it keeps.
type Server struct {
	t       testing.TB
	options Options
	role    []string // what its configuration says beside the options
	args    []string // what stands before Options.Args
	program string
	dir     string
	secret  string // of the user harness
	tls     *certificate
	node    bool // of a cluster

	port, bus int
	admin     *redis.Client // of the user harness

	mu      sync.Mutex // over what follows, while it starts or ends
	process *process   // the last one
	runs    int
}

// Start starts a server and waits until it answers.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	return StartMany(t, 1, options)[0]
}

// StartMany starts n servers that know nothing of each other.
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
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, options: options, role: roleOf(options), program: path, dir: t.TempDir(), secret: rand.Text()}
	if options.TLS {
		if s.tls, err = newCertificate(s.dir); err != nil {
			t.Fatalf("a certificate for a test server: %v", err)
		}
	}
	t.Cleanup(s.close)
	return s
}

// startAll starts servers at the same time.
func startAll(t testing.TB, servers []*Server) {
	t.Helper()
	ctx, cancel := bounded(t)
	defer cancel()
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { errs[i] = s.launch(ctx) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("a test server did not start: %v", err)
	}
}

var errPortTaken = errors.New("another process has the port")

// launch starts a server for the first time, on a port of its choice.
func (s *Server) launch(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := s.choosePorts(ctx); err != nil {
			return err
		}
		if err := s.run(ctx); !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return err
		}
	}
}

func (s *Server) choosePorts(ctx context.Context) (err error) {
	if s.port, err = freePort(ctx); err != nil {
		return err
	}
	if s.node {
		if s.bus, err = freePort(ctx); err != nil {
			return err
		}
	}
	return s.configure()
}

// configure prepares the server for the port that was chosen.
func (s *Server) configure() error {
	if s.admin != nil {
		_ = s.admin.Close() // of a port that was taken
	}
	s.admin = s.newClient(harness, s.secret)
	return os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(s.configuration()), 0o600)
}

// run starts a process on the server's port and waits until it answers.
func (s *Server) run(ctx context.Context) error {
	s.runs++
	args := append([]string{filepath.Join(s.dir, "redis.conf")}, s.listen()...)
	args = append(append(args, s.args...), s.options.Args...)
	p, err := startProcess(s.program, args, filepath.Join(s.dir, fmt.Sprintf("log-%d", s.runs)))
	if err != nil {
		return err
	}
	s.process = p
	if err := until(ctx, p, s.answers); err != nil {
		p.kill()
		text := p.tail()
		if strings.Contains(text, "Address already in use") {
			return errPortTaken
		}
		return fmt.Errorf("%w; it printed:\n%s", err, text)
	}
	return nil
}

func (s *Server) listen() []string {
	port := fmt.Sprint(s.port)
	if s.tls == nil {
		return []string{"--port", port}
	}
	return append([]string{"--port", "0", "--tls-port", port}, s.tls.args()...)
}

// close ends the server with the test. KILL: there is nothing to save.
func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admin != nil {
		_ = s.admin.Close()
	}
	if s.process == nil {
		return
	}
	s.process.kill()
	if s.t.Failed() {
		s.t.Logf("the last words of the server on %s:\n%s", s.Addr(), s.process.tail())
	}
}
