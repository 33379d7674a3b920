package credentialtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// SourceFault is a way in which a source of credentials fails.
type SourceFault struct {
	// Status is the HTTP status of an answer, or of a function's error. It is 0 for the other faults.
	Status int
	// Silent withholds the answer until the caller gives up, or until the source is healed.
	Silent bool
	// Panics makes the source panic. It is only for functions.
	Panics bool
}

func (f SourceFault) String() string {
	switch {
	case f.Silent:
		return "silence"
	case f.Panics:
		return "panic"
	}
	return fmt.Sprint(f.Status)
}

// SourceFaults returns the faults that SourcesOfCredentials tests.
func SourceFaults() []SourceFault {
	return []SourceFault{
		{Status: 400}, {Status: 401}, {Status: 403}, {Status: 404}, {Status: 409}, {Status: 429}, {Status: 503},
		{Silent: true}, {Panics: true},
	}
}

// Source is a proxy in front of a source of credentials. It fails while a fault is set. The zero
// value has no fault. It is safe for concurrent use.
type Source struct {
	// Body returns the body of an answer with an error status. Default: the body of an error from Azure's log-in service.
	Body func(status int) string

	mu     sync.Mutex
	fault  SourceFault
	healed chan struct{} // closed by Heal; nil if there is no fault
	asked  int
}

// Fail makes the source fail from now on.
func (s *Source) Fail(f SourceFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.healed, s.asked = f, make(chan struct{}), 0
}

// Heal ends a fault.
func (s *Source) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.healed != nil {
		close(s.healed)
		s.fault, s.healed = SourceFault{}, nil
	}
}

// Asked counts the requests since the source began to fail.
func (s *Source) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// next counts a request, and returns the fault for the request.
func (s *Source) next() (f SourceFault, healed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.fault, s.healed
}

// Handler returns a handler that answers with the fault, or calls the source's own handler.
func (s *Source) Handler(own http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, healed := s.next()
		switch {
		case f.Silent:
			select {
			case <-r.Context().Done():
			case <-healed:
			}
			panic(http.ErrAbortHandler)
		case f.Status == 0:
			own.ServeHTTP(w, r)
			return
		}
		body := `{"error":"invalid_request","error_description":"of the source"}`
		if s.Body != nil {
			body = s.Body(f.Status)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.Status)
		_, _ = w.Write([]byte(body)) // the client may have disconnected
	})
}

// Err returns the error of a source that is a function, or nil without a fault. The function may
// use this library itself, so its error may be one that providers return, such as a HeldError.
func (s *Source) Err(ctx context.Context) error {
	f, healed := s.next()
	switch {
	case f.Panics:
		panic("of the source")
	case f.Silent:
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-healed:
			return errors.New("cut off")
		}
	}
	answer := fmt.Errorf("the source answered %d", f.Status)
	switch f.Status {
	case 0:
		return nil
	case 401, 403:
		return fmt.Errorf("%w: %w", abstractions.ErrDenied, answer)
	case 404:
		return &abstractions.LostError{Reason: abstractions.LostGone, Err: answer}
	case 409:
		return &abstractions.HeldError{}
	case 429:
		return &abstractions.ThrottledError{RetryAfter: time.Hour, Err: answer}
	case 400:
		return fmt.Errorf("%w: %w", abstractions.ErrNotSetUp, answer)
	}
	return answer
}

// SourceCheck configures SourcesOfCredentials.
type SourceCheck struct {
	// Source is the source of the providers' credentials. The providers ask it for new credentials soon after each call, or after
	// Expire.
	Source *Source
	// Open opens a provider. All opened providers share the leases, and each calls the source itself.
	Open func(t testing.TB) abstractions.Provider
	// Fresh makes a provider that has not called the source yet. It is needed if the client library keeps
	// using old credentials while the source fails. Default: Open.
	Fresh func(t testing.TB) abstractions.Provider
	// Expire makes the providers' credentials expire. If it is nil, they must expire on their own within seconds.
	Expire func()
	// TTL is the TTL of the lease. It is longer than a fault lasts, so the lease is not lost.
	TTL time.Duration
	// Function says that the source is a function, which may panic.
	Function bool
	// Unnamed says that errors don't name a silent source, because the client library calls it without a context.
	Unnamed bool
	// Transport says that the application's HTTP client calls the source, below the provider, so the request may have been sent.
	Transport bool
	// Ambiguous says that the client library repeats requests, so an earlier attempt may have been applied.
	Ambiguous bool
}

// SourcesOfCredentials (T119) makes the source of a provider's credentials fail in each way while a lease is held. The resulting
// error makes no statement about the store. The lease is not lost, no other claim gets the name, the request counts as not
// applied, and the error names the side that failed. After the source has healed, the lease is renewed.
func SourcesOfCredentials(t *testing.T, c SourceCheck) {
	for _, fault := range SourceFaults() {
		if fault.Panics && !c.Function {
			continue
		}
		t.Run(fault.String(), func(t *testing.T) { c.check(t, fault) })
	}
}

// stepTimeout bounds each step of the check.
const stepTimeout = 30 * time.Second

func (c SourceCheck) check(t *testing.T, fault SourceFault) {
	t.Cleanup(c.Source.Heal)
	fresh := c.Open
	if c.Fresh != nil {
		fresh = c.Fresh
	}
	p := fresh(t)
	holder, other := c.manager(t, c.Open(t)), c.manager(t, c.Open(t))
	name := abstractions.NewID()
	lease, err := holder.TryAcquire(t.Context(), name)
	require.NoError(t, err)
	own := c.Open(t)
	grant, err := own.Acquire(t.Context(), c.request())
	require.NoError(t, err)

	c.Source.Fail(fault)
	if c.Expire != nil {
		c.Expire()
	}
	var last error
	eventually(t, func() bool {
		if second, err := other.TryAcquire(t.Context(), name); err == nil && lease.Err() == nil {
			t.Errorf("two holders: tokens %d and %d", lease.Token(), second.Token())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, last = p.Acquire(ctx, c.request())
		return last != nil && c.checkError(t, fault, last)
	}, &last)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err = renew(ctx, own, grant); err != nil { // the client library may keep using old credentials
		c.checkError(t, fault, err)
	}
	require.Positive(t, c.Source.Asked())
	require.NoError(t, lease.Err(), "a false loss")

	c.Source.Heal()
	before := lease.Renewals()
	eventually(t, func() bool { last = lease.Err(); return lease.Renewals() > before || last != nil }, &last)
	require.NoError(t, lease.Err())
	eventually(t, func() bool { // a service may refuse a token in its last second
		if _, last = other.TryAcquire(t.Context(), name); last == nil {
			t.Error("two holders after the source has healed")
		}
		return errors.Is(last, abstractions.ErrHeld)
	}, &last)
	require.NoError(t, lease.Release(t.Context()))
}

func (c SourceCheck) request() abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: abstractions.NewID(), ID: abstractions.NewID(), Owner: "test", TTL: c.TTL}
}

// eventually repeats a step until it is done. If that takes too long, it fails the test with the last error.
func eventually(t *testing.T, done func() bool, last *error) {
	t.Helper()
	for end := time.Now().Add(stepTimeout); !done(); <-time.After(20 * time.Millisecond) {
		if t.Failed() || time.Now().After(end) {
			t.Fatalf("not after %v; the last error: %v", stepTimeout, *last)
		}
	}
}

// checkError reports whether an error names the credentials. It fails the test if the error makes
// a statement about the store.
func (c SourceCheck) checkError(t *testing.T, fault SourceFault, err error) bool {
	for _, of := range []error{
		abstractions.ErrLost, abstractions.ErrHeld, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrNotSetUp,
		abstractions.ErrInvalid, abstractions.ErrClosed, abstractions.ErrUnsupported, abstractions.ErrThrottled,
	} {
		if errors.Is(err, of) {
			t.Errorf("the error of a source became one of the store: %v", err)
		}
	}
	if !strings.Contains(err.Error(), "credentials: ") {
		return (c.Transport || fault.Silent && c.Unnamed) && errors.Is(err, abstractions.ErrUnavailable)
	}
	refused := fault.Status == 401 || fault.Status == 403
	is := errors.Is(err, abstractions.ErrUnavailable)
	if errors.Is(err, abstractions.ErrDenied) {
		is = refused || fault.Status == 400
	}
	if !is || strings.Contains(err.Error(), "\n") || abstractions.NotApplied(err) == c.Ambiguous {
		t.Errorf("%v: %v, not applied: %t", fault, err, abstractions.NotApplied(err))
	}
	return true
}

func (c SourceCheck) manager(t *testing.T, p abstractions.Provider) *leasing.Manager {
	m, err := leasing.NewManager(p, leasing.Options{TTL: c.TTL, RenewCadence: 300 * time.Millisecond, Tuning: leasing.Tuning{RequestTimeout: time.Second}})
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Source.Heal()
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		defer cancel()
		require.NoError(t, m.Close(ctx))
	})
	return m
}

// Proxied runs the calling test again in a separate process, with HTTP_PROXY and HTTPS_PROXY set to url, since
// Go reads them only once in a process. That process has LEASING_TEST_PROXIED set.
func Proxied(t *testing.T, url string) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	again := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // this test
	again.Env = append(os.Environ(), "LEASING_TEST_PROXIED=yes", "HTTP_PROXY="+url, "HTTPS_PROXY="+url, "http_proxy="+url, "https_proxy="+url, "NO_PROXY=", "no_proxy=")
	out, err := again.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

// LinkLocalIsNotProxied (T120) checks which addresses a transport reaches through the proxy. It runs in a process
// started by Proxied.
func LinkLocalIsNotProxied(t *testing.T, proxyOf func(*http.Request) (*url.URL, error), proxy string) {
	t.Helper()
	for address, want := range map[string]string{
		"http://169.254.169.254/metadata/identity/oauth2/token": "",
		"http://169.254.170.2/keys":                             "",
		"http://169.254.129.2:8081/msi/token":                   "",
		"http://[::ffff:169.254.169.254]/":                      "",
		"http://[fd00:ec2::254]/latest/api/token":               "",
		"http://[fd00:ec2::23]/v1/credentials":                  "",
		"http://[fe80::1%25eth0]/":                              "",
		"http://[fe80::1]/":                                     "",
		"https://sts.amazonaws.com/":                            proxy,
		"https://login.microsoftonline.com/":                    proxy,
		"http://169.253.0.1/":                                   proxy,
		"http://169.254.169.254.example.org/":                   proxy,
		"http://[fd00:ec3::254]/":                               proxy,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		found, err := proxyOf(request)
		require.NoError(t, err)
		got := ""
		if found != nil {
			got = found.String()
		}
		require.Equal(t, want, got, address)
	}
}
