package s3lease

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// keyProxy is a proxy in front of a store that checks no keys. It accepts requests that are signed with the current
// key, and returns that key, in place of STS and of a container's endpoint, to bearers of the current token.
type keyProxy struct {
	store http.Handler

	mu         sync.Mutex
	key, token string
}

// trust sets the current key and token.
func (g *keyProxy) trust(key, token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.key, g.token = key, token
}

func (g *keyProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	key, token := g.key, g.token
	g.mu.Unlock()
	source := map[string]http.HandlerFunc{"/": sts, "/keys": sourcesOfKeys["container"].serve}[r.URL.Path]
	switch {
	case source == nil && strings.Contains(r.Header.Get("Authorization"), "Credential="+key+"/"):
		g.store.ServeHTTP(w, r)
	case source != nil && (r.FormValue("WebIdentityToken") == token || r.Header.Get("Authorization") == token):
		answer := httptest.NewRecorder()
		source(answer, r)
		fmt.Fprint(w, strings.Replace(answer.Body.String(), "leasing", key, 1))
	default:
		w.WriteHeader(http.StatusForbidden)
	}
}

// T143: the SDK reads its file of keys only once, and uses its CA bundle only for STS.
func TestTrap_T143_FilesOfTheSDKAreReadAgain(t *testing.T) {
	o := Options{URL: serverURL(t, servers["gofakes3"])}
	require.NoError(t, o.complete())
	fake, err := url.Parse(o.Endpoint)
	require.NoError(t, err)
	first, err := servertest.NewAuthority()
	require.NoError(t, err)
	second, err := servertest.NewAuthority()
	require.NoError(t, err)
	for name, source := range map[string]struct {
		variable string // names the file
		text     func(key, token string) string
		set      func(t *testing.T, https, http string)
		expire   bool // the SDK fetches keys again when they expire
	}{
		"shared credentials": {"AWS_SHARED_CREDENTIALS_FILE", func(key, _ string) string {
			return "[default]\naws_access_key_id = " + key + "\naws_secret_access_key = secret\n"
		}, func(*testing.T, string, string) {}, false},
		"shared configuration": {"AWS_CONFIG_FILE", func(key, _ string) string {
			return "[default]\naws_access_key_id = " + key + "\naws_secret_access_key = secret\n"
		}, func(*testing.T, string, string) {}, false},
		"web identity": {"AWS_WEB_IDENTITY_TOKEN_FILE", func(_, token string) string { return token }, func(t *testing.T, https, _ string) {
			t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/test")
			t.Setenv("AWS_ENDPOINT_URL_STS", https)
		}, true},
		"container": {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", func(_, token string) string { return token }, func(t *testing.T, _, http string) {
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", http+"/keys")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			noSources(t)
			g := &keyProxy{store: httputil.NewSingleHostReverseProxy(fake)}
			plain := httptest.NewServer(g)
			t.Cleanup(plain.Close)
			front := servertest.NewPublicFront(t, plain.Listener.Addr().String(), "http/1.1", first)
			dir := t.TempDir()
			bundle, file := filepath.Join(dir, "bundle.pem"), filepath.Join(dir, "file")
			write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
			turn := func(n string) {
				write(file, source.text("key-"+n, "token-"+n))
				g.trust("key-"+n, "token-"+n)
			}
			turn("1")
			write(bundle, string(first.PEM()))
			t.Setenv("AWS_CA_BUNDLE", bundle)
			t.Setenv(source.variable, file)
			source.set(t, "https://"+front.Addr(), plain.URL)
			p, err := Open(t.Context(), Options{Bucket: "leasing", PathStyle: true, Endpoint: "https://" + front.Addr(), Prefix: abstractions.NewID()})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			credentialtest.OutlivesRotation(t, p, func() { turn("2") })
			if !source.expire {
				credentialtest.OutlivesRotation(t, p, func() { write(file, "") })
				credentialtest.OutlivesRotation(t, p, func() { require.NoError(t, os.Remove(file)) })
			}
			credentialtest.OutlivesRotation(t, p, func() { // STS is tested as well
				write(bundle, string(second.PEM()))
				front.Replace(second)
				turn("3")
			})
			credentialtest.OutlivesRotation(t, p, func() { write(bundle, "") })
		})
	}
}
