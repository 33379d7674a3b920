package auth_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
)

// recorder is a host that must not receive any secret.
type recorder struct {
	*httptest.Server
	credentialtest.Recorder
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{}
	r.Server = httptest.NewTLSServer(&r.Recorder)
	t.Cleanup(r.Close)
	return r
}

// redirecting is the transport of a client that follows redirects. It answers requests with a redirect.
type redirecting struct {
	status int
	to     string
	next   http.RoundTripper
}

func (r redirecting) RoundTrip(req *http.Request) (*http.Response, error) {
	if "https://"+req.URL.Host == r.to || strings.Contains(req.URL.Path, "openid-configuration") {
		return r.next.RoundTrip(req)
	}
	answer := newResponse(req)
	answer.StatusCode, answer.Status = r.status, strconv.Itoa(r.status)
	answer.Header.Set("Location", r.to+req.URL.Path)
	return answer, nil
}

// T118: no secret, assertion or header follows a redirect to another host, in any mode.
func TestTrap_T118_NoSecretFollowsARedirect(t *testing.T) {
	clearEnvironment(t)
	authtest.Each(t, func(t *testing.T, server *authtest.Server, options auth.Options) {
		for _, status := range []int{301, 302, 303, 307, 308} {
			other := newRecorder(t)
			client := http.Client{Transport: http.DefaultTransport}
			if its, ok := options.Client.Transport.(*http.Client); ok {
				client = *its
			}
			var asked atomic.Int32
			next := redirecting{status, other.URL, transportTo(client.Transport, other)}
			client.Transport = roundTrip(func(req *http.Request) (*http.Response, error) { asked.Add(1); return next.RoundTrip(req) })
			o := options
			o.Client.Transport = &client
			credential, err := auth.New(o)
			require.NoError(t, err)
			_, err = credential.GetToken(t.Context(), request())
			if options.Mode == auth.Development { // the tool sends the requests itself
				require.NoError(t, err)
				require.Zero(t, asked.Load())
			} else {
				requireUnavailable(t, err)
			}
			require.Empty(t, other.Recorder.String(), status)
		}
		require.True(t, len(server.Issued()) == 0 || options.Mode == auth.Development)
	})
}

// transportTo returns a transport that also reaches another server.
func transportTo(own http.RoundTripper, other *recorder) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if "https://"+req.URL.Host == other.URL {
			return other.Client().Transport.RoundTrip(req)
		}
		return own.RoundTrip(req)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// T118: if an authority's metadata names another host for tokens, no secret is sent to that host.
func TestTrap_T118_NoSecretGoesWhereMetadataSays(t *testing.T) {
	clearEnvironment(t)
	server, other := authtest.Start(t), newRecorder(t)
	for _, options := range []auth.Options{server.ClientSecret(), server.Certificate(), server.WorkloadIdentity(), server.Federated()} {
		client := *options.Client.Transport.(*http.Client)
		own := client.Transport
		client.Transport = transportTo(roundTrip(func(req *http.Request) (*http.Response, error) {
			answer, err := own.RoundTrip(req)
			if err == nil && strings.Contains(req.URL.Path, "openid-configuration") {
				text, _ := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				text = bytes.ReplaceAll(text, []byte(options.AuthorityHost+"/"+authtest.TenantID+"/oauth2"), []byte(other.URL+"/oauth2"))
				answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			}
			return answer, err
		}), other)
		options.Client.Transport = &client
		credential, err := auth.New(options)
		require.NoError(t, err)
		_, err = credential.GetToken(t.Context(), request())
		requireUnavailable(t, err)
		require.Empty(t, other.Recorder.String())
	}
}
