package httpguard

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// doer is an application's transporter.
type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(req *http.Request) (*http.Response, error) { return d(req) }

// wrapUntraced returns a client that follows redirects and hides its requests from the context's
// trace.
func wrapUntraced(client *http.Client) doer {
	return func(req *http.Request) (*http.Response, error) {
		return client.Do(req.WithContext(context.WithoutCancel(context.Background()))) //nolint:contextcheck // on purpose
	}
}

// wrapRewriting returns a client that follows redirects itself and keeps no record of the
// redirects.
func wrapRewriting(client *http.Client) doer {
	return func(req *http.Request) (*http.Response, error) {
		response, err := client.Transport.RoundTrip(req)
		if err != nil || response.Header.Get("Location") == "" {
			return response, err
		}
		_ = response.Body.Close()
		next, err := http.NewRequest(http.MethodGet, response.Header.Get("Location"), nil) // without a context it is hidden from the trace
		if err != nil {
			return nil, err
		}
		next.Header = req.Header
		return client.Transport.RoundTrip(next)
	}
}

// clients returns a client made by New, and clients made by Wrap over several clients of an
// application.
func clients(t *testing.T) map[string]*Client {
	transport := &http.Transport{DisableKeepAlives: true}
	plain := &http.Client{Transport: transport}
	own := New()
	t.Cleanup(own.CloseIdleConnections)
	return map[string]*Client{
		"own": own, "http.Client": Wrap(plain), "wrapped http.Client": Wrap(doer(plain.Do)),
		"untraced": Wrap(wrapUntraced(plain)), "rewriting": Wrap(wrapRewriting(plain)),
	}
}

func request(t *testing.T, method, at string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader("lease"))
	require.NoError(t, err)
	req.Header.Set("X-Consul-Token", "s3cr3t-token")
	return req
}

// answer is an answer whose body was closed.
type answer struct{ of *http.Response }

func do(client *Client, req *http.Request) (answer, error) {
	response, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	return answer{response}, response.Body.Close()
}

// No client accepts an answer from the target of a redirect, and only a transporter that hides
// from the trace can send the target a request.
func TestTrap_T109_ARedirectIsNoAnswer(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for name, client := range clients(t) {
			var arrived atomic.Int64 // of this client alone: a request that was given up may arrive late
			page := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
			defer page.Close()
			gateway := httptest.NewServer(http.RedirectHandler(page.URL+"/page?sig=s3cr3t", status))
			defer gateway.Close()
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete} {
				arrived.Store(0)
				_, err := do(client, request(t, method, gateway.URL+"/lease"))
				require.Error(t, err, "%s %s %d", name, method, status)
				require.False(t, abstractions.NotApplied(err) || providerkit.NotSent(err), "%s %s %d: %v", name, method, status, err)
				require.NotContains(t, err.Error(), "s3cr3t")
				if name != "untraced" && name != "rewriting" {
					require.Zero(t, arrived.Load(), "%s %s %d", name, method, status)
				}
				if name == "own" || name == "http.Client" {
					var redirect *RedirectError
					require.ErrorAs(t, err, &redirect)
					require.Equal(t, status, redirect.Status)
					require.Contains(t, err.Error(), page.URL)
				}
			}
		}
	}
}

// A write is sent once, even by a transporter that repeats requests.
func TestAWriteIsSentOnce(t *testing.T) {
	var arrived atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	transport := &http.Transport{DisableKeepAlives: true}
	client := Wrap(doer(func(req *http.Request) (*http.Response, error) {
		response, err := transport.RoundTrip(req)
		if err == nil && response.StatusCode == http.StatusServiceUnavailable {
			_ = response.Body.Close()
			response, err = transport.RoundTrip(req.Clone(req.Context()))
		}
		return response, err
	}))
	_, err := do(client, request(t, http.MethodPut, server.URL))
	require.Equal(t, errSentAgain, err)
	require.EqualValues(t, 1, arrived.Load())
}

// A transporter may fetch a credential before it sends the request.
func TestRequestsBeforeAreNoRepetition(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	tokens := httptest.NewServer(http.NotFoundHandler())
	defer tokens.Close()
	transport := &http.Transport{DisableKeepAlives: true}
	client := Wrap(doer(func(req *http.Request) (*http.Response, error) {
		first, err := http.NewRequestWithContext(req.Context(), http.MethodGet, tokens.URL, nil)
		if err != nil {
			return nil, err
		}
		response, err := transport.RoundTrip(first)
		if err != nil {
			return nil, err
		}
		_ = response.Body.Close()
		return transport.RoundTrip(req)
	}))
	answer, err := do(client, request(t, http.MethodPut, server.URL))
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, answer.of.StatusCode)
}

// raw starts a server that answers with a text and closes the connection.
func raw(t *testing.T, text string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}()
	return "http://" + listener.Addr().String()
}

func TestTrap_T112_ABodyThatIsCutOffIsNoAnswer(t *testing.T) {
	for name, text := range map[string]string{
		"short of its length":         "Content-Length: 9\r\n\r\n{}",
		"nothing of its length":       "Content-Length: 9\r\n\r\n",
		"in a chunk":                  "Transfer-Encoding: chunked\r\n\r\n5\r\n{}",
		"after a chunk":               "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
		"in a chunk's length":         "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0",
		"a chunk that is none":        "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
		"in the header":               "Content-Le",
		"gzip without its end":        "Content-Encoding: gzip\r\nContent-Length: 12\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae",
		"another protocol from there": "", // see below
	} {
		text = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\n" + text
		if name == "another protocol from there" {
			text = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n{}"
		}
		at := raw(t, text)
		for by, client := range clients(t) {
			_, err := do(client, request(t, http.MethodPut, at))
			require.Error(t, err, "%s, by %s", name, by)
			require.False(t, abstractions.NotApplied(err) || providerkit.NotSent(err), "%s, by %s: %v", name, by, err)
		}
	}
	// An incomplete answer is also an error with a transporter that does not use net/http.
	_, err := do(Wrap(doer(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, ContentLength: 3, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	})), request(t, http.MethodPut, "http://service"))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestAnAnswerHasABound(t *testing.T) {
	const most = 1000
	for length, fits := range map[int]bool{most: true, most + 1: false} {
		client := Wrap(doer(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(strings.Repeat("x", length)))}, nil
		}))
		require.EqualValues(t, MaxBody, client.maxBody)
		client.maxBody = most
		answer, err := do(client, request(t, http.MethodGet, "http://service"))
		require.Equal(t, fits, err == nil, "%d: %v", length, err)
		if fits {
			require.Len(t, Body(answer.of), most)
		}
	}
}

func TestErrorsAreOneLineWithoutSecrets(t *testing.T) {
	req := request(t, http.MethodPut, "http://service/x?sv=1&sig=s3cr3t%2Fsig%3D&comp=lease")
	req.Header.Set("Authorization", "Bearer s3cr3t.bearer")
	echo := doer(func(req *http.Request) (*http.Response, error) {
		var text strings.Builder
		fmt.Fprintf(&text, "<html>\r\n\x1b[31m\u202e %s\n", req.URL)
		_ = req.Header.Write(&text)
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Body: io.NopCloser(strings.NewReader(text.String()))}, nil
	})
	answer, err := do(Wrap(echo), req)
	require.NoError(t, err)
	said := Foreign("Consul", answer.of, Body(answer.of)).Error()
	require.True(t, strings.HasPrefix(said, "an answer that is not from Consul: 403 text/html: <html>"), said)
	failing := doer(func(req *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("with %v: %w", req.Header, &url.Error{Op: "Put", URL: req.URL.String(), Err: fmt.Errorf("for %s", req.URL)})
	})
	_, err = do(Wrap(failing), req)
	for _, text := range []string{said, err.Error()} {
		require.NotContains(t, text, "s3cr3t")
		require.NotContains(t, text, "\n")
		require.NotContains(t, text, "\x1b")
		require.NotContains(t, text, "\u202e")
	}
}

func TestTrap_T113_MetadataServicesHaveNoProxy(t *testing.T) {
	for host, direct := range map[string]bool{
		"169.254.169.254": true, "169.254.170.2": true, "[fe80::1%25eth0]": true, "[fe80::1]": true, "[::ffff:169.254.169.254]": true,
		"[fd00:ec2::254]": true, "metadata.google.internal": true, "Metadata.Google.Internal.": true, "168.63.129.16": true,
		"169.253.0.1": false, "10.0.0.1": false, "example.com": false, "metadata.example.com": false,
	} {
		u, err := url.Parse("http://" + host + ":80/x")
		require.NoError(t, err)
		through, err := NewTransport().Proxy(&http.Request{URL: u})
		require.NoError(t, err)
		require.Equal(t, direct, through == nil, host)
	}
}
