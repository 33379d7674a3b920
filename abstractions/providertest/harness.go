package providertest

import (
	"net/http"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/proxy"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// Harness says how to test a provider. Only New is required. A check that needs
// a field that is not set is a skipped subtest, whose message names the field.
type Harness struct {
	// New opens a client of a working backend. It is called at least once for
	// each check, from several goroutines at a time. The backend may be
	// shared, since the suite uses unique names; it leaves some of them
	// behind, held for up to a minute more. The suite closes the provider.
	// Close anything else in t.Cleanup, which runs when the check ends.
	New func(t testing.TB) abstractions.Provider

	// Peer opens a second client of the backend behind p, as if in another process. The
	// suite closes the client. Default: p itself.
	Peer func(t testing.TB, p abstractions.Provider) abstractions.Provider

	// Forget makes the backend delete the record of a free name, as it does
	// once the name has been idle for its retention.
	Forget func(t testing.TB, p abstractions.Provider, name string)

	// Ahead raises the token of a free name by an hour, as if the backend's clock had
	// been ahead while the name was held and had been corrected since.
	Ahead func(t testing.TB, p abstractions.Provider, name string)

	// Lose makes the backend lose as much of a held name as the provider's
	// documentation allows: the data of one of several servers, for example.
	Lose func(t testing.TB, p abstractions.Provider, name string)

	// Remove ends a lease without its holder, like an operator who edits the backend by hand. It
	// deletes the record, or takes another step that, by the provider's documentation, ends a
	// lease at once.
	Remove func(t testing.TB, p abstractions.Provider, name string)

	// Remembers is the number of ended IDs of the last minute that a busy name refuses, if more
	// than the eight of the contract: 64 for cas.Records.
	Remembers int

	// Records returns the cas.Records that p is made of. If it is set, the suite also checks the
	// promises that Records require of their Store.
	Records func(p abstractions.Provider) *cas.Records

	// Unreachable opens a client whose backend does not answer: preferably
	// one that accepts requests and stays silent, otherwise one that does not
	// exist.
	Unreachable func(t testing.TB) abstractions.Provider

	// HTTP returns the route from a provider that speaks HTTP to the server of p. If HTTP is set, the
	// suite puts between the two a proxy that answers in place of the server. The proxy needs sockets,
	// so HTTP must be nil with Virtual.
	HTTP func(t testing.TB, p abstractions.Provider) Route

	// TTL is the TTL of leases that the suite lets run out. Default: the
	// provider's minimum, but at least 300 ms (10 s in virtual time).
	TTL time.Duration

	// Virtual runs each check in a testing/synctest bubble. New is called inside
	// the bubble, where nothing may use a socket or a file. Without Virtual the
	// checks that need exact times are skipped.
	Virtual bool

	// Advance moves the clock of p's backend by d: forward, or back if d is negative and
	// the clock can go back. If Advance is set, New must give each provider its own backend.
	Advance func(p abstractions.Provider, d time.Duration)

	// Watched says that a client considers a lease over only after it has seen the lease
	// unchanged for its TTL. If it is set, both clients read a lease before the suite lets the lease
	// run out.
	Watched bool

	// KnowsTheGone says that the backend detects dead clients and does not list their waiters.
	// If it is set, Peer must open separate clients.
	KnowsTheGone bool

	// Slack bounds the time that a prompt action, such as the return of a call whose context has
	// ended, may take on a slow machine. Default 10 s.
	Slack time.Duration

	// Except has the checks that this provider can't pass, by name, with the reason. They
	// are reported as skipped.
	Except map[string]string
}

func (h Harness) withDefaults() Harness {
	if h.Peer == nil {
		h.Peer = func(_ testing.TB, p abstractions.Provider) abstractions.Provider { return p }
	}
	if h.Slack == 0 {
		h.Slack = 10 * time.Second
	}
	return h
}

// Route is the route from a provider that speaks HTTP to its server, for the checks that put a
// proxy between the two: see Harness.HTTP.
type Route struct {
	// URL is the URL of the server, as in http://127.0.0.1:8500. The proxy forwards requests to
	// its scheme and host, with the path, the query, the Host and the header of the original
	// request.
	URL string
	// Transport sends the requests. Default: a plain http.Transport. A client that asks the server for
	// its address needs a transport that replaces the address in the answer with the request's Host.
	Transport http.RoundTripper
	// Open opens a client that sends all its requests to a URL, http://127.0.0.1:port, with the HTTP
	// client that the provider has by default. Open may send requests. The suite closes the client.
	Open func(t testing.TB, url string) abstractions.Provider
}

// openProxied opens a client behind a proxy in front of the server of p.
func (h Harness) openProxied(t testing.TB, p abstractions.Provider) (abstractions.Provider, *proxy.Proxy) {
	route := h.HTTP(t, p)
	before := proxy.New(t, route.URL, route.Transport)
	return route.Open(t, before.URL), before
}

// backend returns the harness in the form that the checks use.
func (h Harness) backend() suite.Backend {
	b := suite.Backend{
		New: h.New, NewPeer: h.Peer, Unreachable: h.Unreachable, Forget: h.Forget, Ahead: h.Ahead, Lose: h.Lose, Remove: h.Remove,
		Records: h.Records, Advance: h.Advance, Remembers: h.Remembers, TTL: h.TTL, Slack: h.Slack, Virtual: h.Virtual, Watched: h.Watched,
	}
	if h.HTTP != nil {
		b.Behind = h.openProxied
	}
	return b
}
