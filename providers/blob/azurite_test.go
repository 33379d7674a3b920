package bloblease

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

// azuriteVariable names the running server that is shared by tests which neither stop nor pause
// a server.
const azuriteVariable = "LEASING_TEST_AZURITE"

// azuriteAccount is the name of the account of each server.
const azuriteAccount = "leasingtest"

// Azurite is the emulator of Azure Blob Storage. It keeps everything in memory. The
// program is the npm package azurite in the cache where scripts/with-servers puts it, or
// the file that the environment variable AZURITE names, run by node.
type Azurite struct {
	servertest.Server
	key  string
	cert *servertest.Certificate // nil without tokens
}

// StartAzurite starts a server that ends with the test.
func StartAzurite(t testing.TB) *Azurite {
	t.Helper()
	return startAzurite(t, false)
}

// startAzurite is StartAzurite with options. With tokens the server speaks https, and accepts bearer tokens besides the key: any
// JWT with the right audience, issuer and times, signed or not. keys are the account's keys, one or two; default: a new key.
func startAzurite(t testing.TB, tokens bool, keys ...string) *Azurite {
	t.Helper()
	servertest.Require(t, azuriteVariable)
	s, err := launchAzurite(t, t.TempDir(), tokens, keys...)
	t.Cleanup(s.Close)
	require.NoError(t, err, "a test server did not start")
	return s
}

func launchAzurite(t testing.TB, dir string, tokens bool, keys ...string) (s *Azurite, err error) {
	if len(keys) == 0 {
		keys = []string{newKey()}
	}
	s = &Azurite{key: strings.Join(keys, ":")}
	s.Server = servertest.Server{T: t, Dir: dir, Command: s.command, Answers: s.answers}
	if tokens {
		if s.cert, err = servertest.NewCertificate(dir); err != nil {
			return s, err
		}
	}
	ctx, cancel := servertest.Bounded(t)
	defer cancel()
	return s, s.Launch(ctx)
}

// newKey makes an account key.
func newKey() string {
	var secret [32]byte
	rand.Read(secret[:]) // never fails: see crypto/rand
	return base64.StdEncoding.EncodeToString(secret[:])
}

// command returns a command that runs the program with node.
func (s *Azurite) command() (*exec.Cmd, error) {
	node, main, err := azuriteProgram()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(node, main, "--blobHost", "127.0.0.1", "--blobPort", fmt.Sprint(s.Port()), "--blobKeepAliveTimeout", "600",
		"--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent")
	if s.cert != nil {
		cmd.Args = append(cmd.Args, "--oauth", "basic", "--cert", s.cert.Cert, "--key", s.cert.Key)
	}
	cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+azuriteAccount+":"+s.key)
	return cmd, nil
}

// azuriteVersion equals the version in scripts/servers/azurite.sh.
const azuriteVersion = "3.35.0"

var errNoAzurite = errors.New("no Azurite: these tests start, kill and pause servers of their own, also where " +
	"LEASING_TEST_AZURITE names a running one; run scripts/with-servers azurite -- true, which fetches it, " +
	"or set AZURITE to the path of its dist/src/blob/main.js")

func azuriteProgram() (node, main string, err error) {
	if node, err = exec.LookPath("node"); err != nil {
		return "", "", fmt.Errorf("%w: Azurite runs on Node 20: %w", errNoAzurite, err)
	}
	if main = os.Getenv("AZURITE"); main == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", "", errors.Join(errNoAzurite, err)
		}
		main = filepath.Join(cache, "leasing", "azurite-"+azuriteVersion, "node_modules", "azurite", "dist", "src", "blob", "main.js")
	}
	if _, err := os.Stat(main); err != nil {
		return "", "", errors.Join(errNoAzurite, err)
	}
	return node, main, nil
}

func (s *Azurite) answers(context.Context) error {
	if !strings.Contains(s.Printed(), "successfully listens") {
		return errors.New("it does not listen yet")
	}
	return nil
}

// URL returns the account's address, without a slash at its end.
func (s *Azurite) URL() string {
	scheme := "http"
	if s.cert != nil {
		scheme = "https"
	}
	return scheme + "://" + s.Addr() + "/" + azuriteAccount
}

// ConnectionString returns the account's connection string.
func (s *Azurite) ConnectionString() string {
	return fmt.Sprintf("AccountName=%s;AccountKey=%s;BlobEndpoint=%s", azuriteAccount, s.key, s.URL())
}

// transport returns a transport that trusts the server. The caller closes its idle
// connections.
func (s *Azurite) transport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 64, TLSClientConfig: s.cert.Trust()}
}

// request lists the account's containers without credentials.
func (s *Azurite) request(t *testing.T, timeout time.Duration) (status int, err error) {
	t.Helper()
	transport := s.transport()
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(within(t, timeout), http.MethodGet, s.URL()+"?comp=list", http.NoBody)
	require.NoError(t, err)
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

func TestAzuriteKeepsItsPort(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		s := startAzurite(t, tokens)
		url := s.URL()
		status, err := s.request(t, time.Minute)
		require.NoError(t, err)
		require.Equal(t, http.StatusForbidden, status, "it speaks, and wants to know who asks")

		s.Pause()
		_, err = s.request(t, 300*time.Millisecond)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s.Resume()
		_, err = s.request(t, time.Minute)
		require.NoError(t, err)

		s.Kill()
		s.Kill()
		_, err = s.request(t, time.Minute)
		require.Error(t, err)
		s.Restart()
		require.Equal(t, url, s.URL())
		_, err = s.request(t, time.Minute)
		require.NoError(t, err)
	}
}

func TestMissingAzuriteIsAnError(t *testing.T) {
	t.Setenv("AZURITE", t.TempDir()+"/none")
	_, _, err := azuriteProgram()
	require.ErrorIs(t, err, errNoAzurite)
}
