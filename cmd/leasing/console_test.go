//go:build linux

package main

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

// openConsole starts a console on a port of its own, and returns its address.
func (p *testEnv) openConsole(flags ...string) (page *process, at string) {
	p.t.Helper()
	page = p.start(append([]string{"console", "--listen", "127.0.0.1:0"}, flags...)...)
	page.awaitOutput("/\n")
	return page, strings.TrimSpace(page.text(page.out))
}

// ask sends a request, with a form unless it is nil, and returns the answer's status and text.
func ask(t *testing.T, at string, form url.Values, change func(*http.Request)) (status int, text string) {
	t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	change(req)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(req)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

// tokenFile writes a file with the token "0123456789abcdef".
func (p *testEnv) tokenFile() string {
	file := filepath.Join(p.folder, "token")
	require.NoError(p.t, os.WriteFile(file, []byte("0123456789abcdef\n"), 0o600))
	return file
}

// The console serves a page of the present leases to users with the token, until it is interrupted.
func TestConsole(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	holder := p.start("run", "jobs/a", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.awaitOutput("ready")
	page, at := p.openConsole("--token-file", p.tokenFile())
	status, text := ask(t, at, nil, func(r *http.Request) { r.SetBasicAuth("ada", "0123456789abcdef") })
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "jobs/a")
	status, _ = ask(t, at, nil, func(r *http.Request) { r.SetBasicAuth("ada", "another one") })
	require.Equal(t, http.StatusUnauthorized, status)
	require.NoError(t, page.Process.Signal(os.Interrupt))
	require.NoError(t, page.Wait())
}

// The console ends a lease only if a flag allows that, and only for a known user: a
// user with the token, or a user that a proxy names.
func TestConsoleEndsLeasesForThoseWhoMay(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	holder := p.start("run", "jobs/a", "--", "sh", "-c", "echo is $LEASING_TOKEN; sleep 1000")
	holder.awaitOutput("\n")
	form := url.Values{"name": {"jobs/a"}, "typed": {"jobs/a"}, "reason": {"it hangs"}, "token": {strings.TrimSpace(strings.TrimPrefix(holder.text(holder.out), "is "))}}
	nobody := func(*http.Request) {}
	ada := func(r *http.Request) { r.SetBasicAuth("ada", "0123456789abcdef") }
	header := func(key, value string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(key, value) } }
	secret := []string{"--token-file", p.tokenFile()}
	proxied := []string{"--allow-break", "--user-header", "X-User", "--proxy"}
	for _, c := range []struct {
		flags  []string
		change func(*http.Request)
		want   int
	}{
		{nil, nobody, http.StatusForbidden},
		{secret, ada, http.StatusForbidden},
		{append(secret, "--allow-break"), nobody, http.StatusUnauthorized},
		{append(secret, "--allow-break"), func(r *http.Request) { r.SetBasicAuth("ada", "0123456789abcdeF") }, http.StatusUnauthorized},
		{append(secret, "--allow-break"), func(r *http.Request) { ada(r); r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		{append(secret, "--allow-break"), func(r *http.Request) { ada(r); r.Host = "evil.example" }, http.StatusMisdirectedRequest},
		{append(proxied, "127.0.0.0/8"), nobody, http.StatusForbidden},
		{append(proxied, "10.0.0.0/8"), header("X-User", "ada"), http.StatusForbidden},
		{append(proxied, "127.0.0.0/8"), header("X-User", "ada"), http.StatusSeeOther},
	} {
		code, out, _ := p.run("inspect", "jobs/a", "-o", "json")
		require.Zero(t, code)
		require.NotContains(t, out, `"breaking":true`, "nothing has ended it so far")
		page, at := p.openConsole(c.flags...)
		status, text := ask(t, at+"break", form, c.change)
		require.Equal(t, c.want, status, "%v: %s", c.flags, text)
		require.NoError(t, page.Process.Signal(os.Interrupt))
		require.NoError(t, page.Wait())
	}
	_, out, _ := p.run("history", "jobs/a")
	require.Regexp(t, `broken .* ada +it hangs`, out)
}

func TestConsoleRefusesWhatLetsAnybodyIn(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	for flags, want := range map[string][]string{
		"--allow-break: want":             {"--allow-break"},
		"want a loopback address":         {"--listen", "0.0.0.0:0"},
		`--proxy: "everybody" is neither`: {"--user-header", "X-User", "--proxy", "everybody"},
		"--user-header: want --proxy":     {"--user-header", "X-User"},
		"--proxy: want --user-header":     {"--proxy", "10.0.0.1"},
		"want at least 16 bytes":          {"--token-file", os.DevNull},
		"no such file or directory":       {"--token-file", "/no/such/file"},
	} {
		code, _, problems := p.run(append([]string{"console", "--for", "1ms"}, want...)...)
		require.Equal(t, exit.Failed, code)
		require.Contains(t, problems, flags)
	}
}
