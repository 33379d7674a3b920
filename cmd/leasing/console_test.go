//go:build linux

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A page of the leases that are there, for those who know the token, until it is ended.
func TestConsole(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder := p.start("run", "jobs/a", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.printed("ready")
	token := filepath.Join(p.folder, "token")
	require.NoError(t, os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600))
	page := p.start("console", "--listen", "127.0.0.1:0", "--token-file", token)
	page.printed("/\n")
	at := strings.TrimSpace(page.text(page.out))
	get := func(password string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		require.NoError(t, err)
		req.SetBasicAuth("ada", password)
		answer, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text)
	}
	code, text := get("0123456789abcdef")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, "jobs/a")
	code, _ = get("another one")
	require.Equal(t, http.StatusUnauthorized, code)
	require.NoError(t, page.Process.Signal(os.Interrupt))
	require.NoError(t, page.Wait())
}

func TestConsoleRefusesWhatLetsAnybodyIn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for flags, want := range map[string][]string{
		"--allow-break: want":        {"--allow-break"},
		"want a loopback address":    {"--listen", "0.0.0.0:0"},
		"--proxy: netip.ParsePrefix": {"--user-header", "X-User", "--proxy", "everybody"},
		"if any flags in the group":  {"--user-header", "X-User"},
		"want at least 16 bytes":     {"--token-file", os.DevNull},
		"no such file or directory":  {"--token-file", "/no/such/file"},
	} {
		code, _, problems := p.run(append([]string{"console", "--for", "1ms"}, want...)...)
		require.Equal(t, exitFailed, code)
		require.Contains(t, problems, flags)
	}
}
