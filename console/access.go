package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// Access returns the user who sent a request, or refuses the request. The user's name is shown
// on the pages, and is the Actor of breaks; it must not be "". A function that refuses may set
// headers of the response: with WWW-Authenticate the status is 401, otherwise 403. Access is
// called for every request, by several goroutines.
type Access func(w http.ResponseWriter, r *http.Request) (user string, ok bool)

// minToken is the minimum length of a token, in bytes.
const minToken = 16

// Token accepts every user who knows a secret of at least 16 bytes. It uses HTTP Basic
// authentication: the secret is the password, and users choose their names. Browsers
// send the secret with each request, so use TLS on any network.
//
// Requests with wrong secrets are answered at a rate of five per second, each after at most 10 s. The
// default logger of log/slog logs a warning with user and address, at most once a second. A request with
// the right secret is answered at once.
func Token(secret string) (Access, error) {
	if len(secret) < minToken {
		return nil, &leasing.InvalidError{Field: "secret", Value: "redacted", Want: "at least 16 bytes"}
	}
	want := sha256.Sum256([]byte(secret))
	var guessed wrongTokens
	return func(w http.ResponseWriter, r *http.Request) (string, bool) {
		user, password, is := r.BasicAuth()
		got := sha256.Sum256([]byte(password))
		right := subtle.ConstantTimeCompare(got[:], want[:]) == 1
		switch {
		case right && isUser(user):
			return user, true
		case is && !right:
			guessed.delayAnswer(r, user)
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="leases: your name, and the token as password", charset="UTF-8"`)
		return "", false
	}, nil
}

// ProxyUser takes the user from a header that a proxy in front of the console sets. The proxy must
// remove that header from incoming requests. Requests from addresses other than the proxies' are
// refused. Requests over a Unix socket are accepted: the permissions of the socket determine which
// proxies can connect. If proxies is empty, only requests over a Unix socket are accepted.
func ProxyUser(header string, proxies ...netip.Prefix) (Access, error) {
	if header == "" {
		return nil, &leasing.InvalidError{Field: "ProxyUser", Value: header, Want: "a header"}
	}
	for _, p := range proxies {
		if !p.IsValid() {
			return nil, &leasing.InvalidError{Field: "proxies", Value: p, Want: "addresses like 10.0.0.0/8"}
		}
	}
	return func(_ http.ResponseWriter, r *http.Request) (string, bool) {
		peer := peerOf(r)
		users := r.Header.Values(header)
		ours := isOverUnix(r) || slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(peer) })
		if !ours || len(users) != 1 || !isUser(users[0]) {
			return "", false
		}
		return users[0], true
	}, nil
}

// isOverUnix reports whether a request came over a Unix socket.
func isOverUnix(r *http.Request) bool {
	_, is := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr)
	return is
}

// isUser reports whether a user can be the actor of a break.
func isUser(user string) bool {
	return abstractions.ValidateText("user", user, leasing.MaxOwnerBytes) == nil
}

// peerOf returns the address from which a request comes, or the zero address if that is unknown.
func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}

// localOnly is the Access of the zero Options: it accepts requests that come from a loopback
// address or over a Unix socket, that no proxy has passed on, and whose host is this machine.
func (c *Console) localOnly(_ http.ResponseWriter, r *http.Request) (string, bool) {
	host := hostOf(r.Host)
	address, err := netip.ParseAddr(host)
	ours := err != nil || address.Unmap().IsLoopback() || c.isListed(host)
	return "", ours && (peerOf(r).IsLoopback() || isOverUnix(r)) && !isForwarded(r)
}

// proxyHeader matches the names of headers that proxies add. Some servers treat "_" as
// "-". The names are from RFC 7239 (Forwarded), RFC 9110 (Via), RFC 8586 (CDN-Loop),
// and the conventions of nginx, HAProxy, Envoy, Apache, AWS, Cloudflare, Akamai and
// Fastly.
var proxyHeader = regexp.MustCompile(`(?i)forwarded|^via$|^cdn[-_]loop$|^cf[-_]|^front[-_]end[-_]https$|^x[-_](original|proxy|envoy|amzn|host|scheme)|` +
	`(real|remote|client|cluster|connecting|source)[-_]?(ip|addr|port|host|user)`)

// isForwarded reports whether a request came through a proxy. The presence of a header
// counts, not its value: a proxy leaves a client's empty header in front of its own.
// nginx before 1.29.7 sends HTTP/1.0 unless configured otherwise, and adds no header:
// https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_http_version
func isForwarded(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) {
		return true
	}
	for name := range r.Header {
		if proxyHeader.MatchString(name) {
			return true
		}
	}
	return false
}

// userKey is the key of a request's user in its context.
type userKey struct{}

func userOf(r *http.Request) string {
	user, _ := r.Context().Value(userKey{}).(string)
	return user
}

// authorize passes on the requests that name one of our hosts and come from a user.
func (c *Console) authorize(next http.Handler) http.Handler {
	access := c.options.Access
	if access == nil {
		access = c.localOnly
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.isHost(r.Host) {
			fail(w, http.StatusMisdirectedRequest, "The console does not answer under this host name. List it in Options.Hosts.")
			return
		}
		user, ok := access(w, r)
		switch {
		case ok:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
		case w.Header().Get("WWW-Authenticate") != "":
			fail(w, http.StatusUnauthorized, "Sign in with your name, and the token as password.")
		case c.options.Access == nil:
			fail(w, http.StatusForbidden, "Only this machine has access. Set Options.Access to let other users in.")
		default:
			fail(w, http.StatusForbidden, "You have no access to this console.")
		}
	})
}

// isHost reports whether the host of a request is a host of the console. An attacker's page can make any host
// name resolve to this machine, but that is not possible with an IP address.
func (c *Console) isHost(hostport string) bool {
	host := hostOf(hostport)
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") || c.isListed(host)
}

// isListed reports whether Options.Hosts contains a host.
func (c *Console) isListed(host string) bool {
	return slices.ContainsFunc(c.options.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// hostOf returns the host in a Host header, without port, brackets and final dot.
func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.Trim(strings.TrimSuffix(host, "."), "[]")
}

// requireBreak passes on the requests of users who may end leases.
func (c *Console) requireBreak(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !c.options.AllowBreak:
			fail(w, http.StatusForbidden, "This console is read-only. Nothing was done.")
			return
		case userOf(r) == "":
			fail(w, http.StatusForbidden, "Only a user with a name may end a lease. Nothing was done.")
			return
		}
		next(w, r)
	}
}
