package main

import (
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/app"
)

// The pages under docs are for readers who configure a provider. The settings on
// these pages have to work.
const docs = "../../docs"

func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(docs, "*.md"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(docs, "*", "*.md"))
	require.NoError(t, err)
	pages := map[string]string{"README.md": page(t, "README.md")}
	for _, file := range append(files, more...) {
		pages[file] = page(t, file)
	}
	require.Greater(t, len(pages), len(backends), "pages")
	return pages
}

func page(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

var (
	jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)```")
	openedURL = regexp.MustCompile(`OpenURL\(ctx, "([^"]*)"\)`)
	link      = regexp.MustCompile(`\]\(([^)]*)\)`)
)

// disableAWS makes requests to Amazon fail.
func disableAWS(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	t.Setenv("AWS_ACCESS_KEY_ID", "nobody")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "geheim")
}

// writeServiceAccount makes the files ca.crt and token in a folder.
func writeServiceAccount(t *testing.T, folder string) (ca, token string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca, token = filepath.Join(folder, "ca.crt"), filepath.Join(folder, "token")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, certificate, 0o600))
	require.NoError(t, os.WriteFile(token, []byte("geheim"), 0o600))
	return ca, token
}

// checkOpened requires that a provider was opened, or that only its server is missing.
func checkOpened(t *testing.T, provider leasing.Provider, err error, text string) {
	t.Helper()
	if err != nil {
		require.ErrorIs(t, err, leasing.ErrUnavailable, text) // a provider that creates its tables has tried to reach its server
		return
	}
	require.NoError(t, provider.Close())
}

func TestPagesOfProviders(t *testing.T) {
	disableAWS(t)
	texts := map[string]string{}
	for name := range backends {
		texts[name] = page(t, filepath.Join(docs, "providers", name+".md"))
	}
	t.Chdir(t.TempDir()) // where files may be made
	require.NoError(t, os.MkdirAll("var/lib/app", 0o700))
	writeServiceAccount(t, ".")
	for name, text := range texts {
		blocks := jsonBlock.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, blocks, name)
		for _, block := range blocks {
			section := strings.ReplaceAll(block[1], "sqlite:///", "sqlite://")
			require.True(t, json.Valid([]byte(section)), section)
			provider, err := backends[name](t.Context(), json.RawMessage(section))
			checkOpened(t, provider, err, section)
			if err == nil {
				named := strings.Replace(provider.Capabilities().Provider, "mysql", "mariadb", 1) // its dialect
				require.Contains(t, named, name)                                                  // "redis-cluster" contains "redis"
			}
		}
		urls := openedURL.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, urls, name)
		for _, url := range urls {
			provider, err := app.Open(t.Context(), strings.Replace(url[1], "sqlite:///", "sqlite://", 1))
			checkOpened(t, provider, err, url[1])
		}
	}
}

// The example for Prometheus in docs/operations.md has the same statements as this program.
func TestTheMetricsOfThePage(t *testing.T) {
	code := page(t, "metrics.go") + page(t, "main.go")
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(page(t, filepath.Join(docs, "operations.md")))
	require.NotNil(t, block)
	for line := range strings.Lines(block[1]) {
		statement, _, _ := strings.Cut(strings.TrimSpace(line), " //")
		require.Contains(t, code, statement+"\n")
	}
}

func TestLinksOfPages(t *testing.T) {
	for file, text := range pages(t) {
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(l[1], "#")
			if strings.HasPrefix(target, "https://") {
				continue
			}
			path := filepath.Join(filepath.Dir(file), target)
			info, err := os.Stat(path)
			require.NoError(t, err, "%s links to %s", file, l[1])
			if anchor != "" && !info.IsDir() {
				require.Contains(t, anchors(page(t, path)), anchor, "%s links to %s", file, l[1])
			}
		}
	}
}

// anchors returns the anchors that a forge makes from headings.
func anchors(text string) []string {
	var all []string
	for line := range strings.SplitSeq(text, "\n") {
		if heading, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); found && strings.HasPrefix(line, "#") {
			heading = regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading), "")
			all = append(all, strings.ReplaceAll(heading, " ", "-"))
		}
	}
	return all
}
