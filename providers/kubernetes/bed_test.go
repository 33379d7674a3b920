package kuberneteslease

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// serverURL returns the URL of a server. Building a server takes minutes, so "make test"
// does not start Kubernetes.
func serverURL(t testing.TB) string {
	t.Helper()
	url := servertest.Require(t, "LEASING_TEST_KUBERNETES")
	return url
}

func open(t testing.TB, o Options) *Provider {
	t.Helper()
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// openUnprobed returns a provider that has sent no request to its server.
func openUnprobed(t testing.TB, o Options) *Provider {
	t.Helper()
	require.NoError(t, o.complete())
	p, err := newProvider(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// silentProvider returns a provider whose server accepts connections and never answers.
func silentProvider(t testing.TB) *Provider {
	return openUnprobed(t, Options{Address: "http://" + faulttest.Silent(t), Namespace: "default"})
}

const secret = "secret-of-the-admin"

// newServer starts a server for the test, with its own etcd, which keeps the leases. at returns the admin's options for an address.
func newServer(t testing.TB) (s *servertest.Server, at func(addr string) Options) {
	t.Helper()
	serverURL(t)
	dir := t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), text, 0o600))
	users := secret + ",admin,1,system:masters\nof-the-user,user,2\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokens"), []byte(users), 0o600))
	var ports [2]int
	for i := range ports {
		ports[i], err = servertest.FreePort(t.Context())
		require.NoError(t, err)
	}
	local := func(i int) string { return fmt.Sprintf("http://127.0.0.1:%d", ports[i]) }
	etcd, err := servertest.StartProcess(exec.Command(servertest.Tool(t, "ETCD", "../../integration/tools/etcd", "server"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", local(0), "--advertise-client-urls", local(0), "--log-level", "error",
		"--listen-peer-urls", local(1), "--initial-advertise-peer-urls", local(1), "--initial-cluster", "default="+local(1)))
	require.NoError(t, err)
	t.Cleanup(etcd.Kill)
	at = func(addr string) Options {
		return Options{Address: "https://" + addr, CAFile: filepath.Join(dir, "apiserver.crt"), Token: providerkit.NewSecret(secret), Namespace: "default"}
	}
	s = &servertest.Server{T: t, Dir: t.TempDir()}
	program := servertest.Tool(t, "KUBE_APISERVER", "../../integration/tools/kubernetes", "kube-apiserver")
	s.Command = func() (*exec.Cmd, error) {
		return exec.Command(program,
			"--etcd-servers", local(0), "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", fmt.Sprint(s.Port()), "--cert-dir", dir,
			"--service-account-key-file", filepath.Join(dir, "key"), "--service-account-signing-key-file", filepath.Join(dir, "key"),
			"--service-account-issuer", "https://leasing.test", "--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount",
			"--token-auth-file", filepath.Join(dir, "tokens"), "--authorization-mode", "RBAC", "--endpoint-reconciler-type", "none"), nil
	}
	s.Answers = func(ctx context.Context) error { // as soon as the server accepts the admin
		p, err := Open(ctx, at(s.Addr()))
		if err != nil {
			return err
		}
		defer p.Close()
		// A lease can't be created until the server has made its own namespaces.
		_, err = p.driver.store.client.Do(ctx, http.MethodGet, "/api/v1/namespaces/default", nil, nil, &struct{}{})
		return err
	}
	t.Cleanup(s.Close)
	require.NoError(t, s.Launch(t.Context()))
	return s, at
}

// openOverWire returns a provider whose requests go through a wire, which initially changes nothing.
func openOverWire(t testing.TB, o Options) (*Provider, *faulttest.Wire) {
	t.Helper()
	require.NoError(t, o.complete())
	client, err := o.client() // the transport trusts the server
	require.NoError(t, err)
	t.Cleanup(client.Close)
	var w *faulttest.Wire
	o.CAFile = ""
	o.Client, w = faulttest.NewWire(client.Transport())
	return openUnprobed(t, o), w
}

// unreachableOptions returns options for tests that send no request to a server.
func unreachableOptions() Options {
	return Options{Address: "http://127.0.0.1:1", Namespace: "default"}
}

func acquireRequest(name string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "test", TTL: ttl}
}

func renewRequest(g abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State}
}
