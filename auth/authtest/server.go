package authtest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/google/uuid"
)

// The tenant and the client of all tokens.
const (
	TenantID = "11111111-1111-4111-8111-111111111111"
	ClientID = "22222222-2222-4222-8222-222222222222"
)

// DefaultLifetime is the lifetime of tokens before SetLifetime.
const DefaultLifetime = time.Hour

// Server issues tokens. Its methods may be called concurrently, except for the methods that set
// environment variables.
type Server struct {
	t         testing.TB
	base      string // the common prefix of all addresses
	transport policy.Transporter
	secret    string // of the client
	header    string // of the managed identity
	job       string // the GitHub Actions job's request token
	identity  string // client ID of the managed identity
	object    string
	azDir     string // "" until Development

	mu       sync.Mutex
	lifetime time.Duration
	status   int // the status of failures; 0: no failures
	requests int
	issued   []string
	subjects map[string]bool          // tokens of another issuer that are trusted
	pair     func() (keyPair, error)  // of the client
	files    map[string]func() string // by path; each makes the file's content: such a token, or the key pair
}

// Start starts a server on loopback, which stops when the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := newServer(t)
	loopback := httptest.NewTLSServer(s.handler())
	t.Cleanup(loopback.Close)
	client := loopback.Client()
	t.Cleanup(client.CloseIdleConnections)
	s.base, s.transport = loopback.URL, client
	return s
}

// StartInMemory starts a server without a socket: the options that the server
// returns have a transport that calls the server directly. This works in a
// synctest bubble, except for Development, which starts a program.
func StartInMemory(t testing.TB) *Server {
	t.Helper()
	s := newServer(t)
	s.base, s.transport = "https://authtest.invalid", inMemory{s.handler()}
	return s
}

func newServer(t testing.TB) *Server {
	return &Server{
		t: t, lifetime: DefaultLifetime, subjects: make(map[string]bool), pair: pair, files: make(map[string]func() string),
		secret: random("client-secret"), header: random("identity-header"), job: random("job-token"), identity: random("identity"), object: uuid.NewString(),
	}
}

// inMemory is a transport that calls a handler.
type inMemory struct{ handler http.Handler }

func (m inMemory) Do(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	recorder := httptest.NewRecorder()
	m.handler.ServeHTTP(recorder, request)
	response := recorder.Result()
	response.Request = request
	return response, nil
}

// SetLifetime sets the lifetime of tokens that are issued from now on, in whole seconds.
func (s *Server) SetLifetime(lifetime time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lifetime = lifetime
	s.configureAz()
}

// Fail makes the server answer requests for tokens with the given status from now on; 0 restores
// normal answers. The program az then prints an error and fails.
func (s *Server) Fail(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
	s.configureAz()
}

// ObjectID returns the claim "oid" of the tokens: the identity's user name in Redis. Each server
// has its own.
func (s *Server) ObjectID() string { return s.object }

// Requests returns the number of requests for tokens, including those that failed.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests + len(s.azLines("requests"))
}

// Issued returns the tokens in the order in which they were issued.
func (s *Server) Issued() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(append([]string(nil), s.issued...), s.azLines("issued")...)
}

// Secrets returns the values that must not be shown anywhere: tokens, secrets, passwords.
func (s *Server) Secrets() []string {
	secrets := append(s.Issued(), s.secret, s.header, s.job, certificatePassword)
	s.mu.Lock()
	defer s.mu.Unlock()
	for subject := range s.subjects {
		secrets = append(secrets, subject)
	}
	return secrets
}

// Rotate replaces the other issuer's tokens, in the files (as Kubernetes does) and in the token
// function. The first call also replaces the client's certificate. Entra ID then refuses the old
// tokens and the old certificate.
func (s *Server) Rotate() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.subjects)
	s.pair = nextPair
	for path, contents := range s.files {
		s.write(path, contents())
	}
}

// RotateInUse calls Rotate, and returns once a call of use has received a token that was issued after the rotation.
func (s *Server) RotateInUse(use func(context.Context) error) {
	s.t.Helper()
	s.Rotate()
	before := len(s.Issued())
	servertest.Eventually(s.t, "there is a new token", func(ctx context.Context) error {
		err := use(ctx)
		if err == nil && len(s.Issued()) == before {
			err = errors.New("the previous token is in use")
		}
		return err
	})
}
