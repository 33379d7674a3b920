package providertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// web is a server that keeps texts under ETags. All its answers have a mark, X-Web.
type web struct {
	mu    sync.Mutex
	puts  int
	texts map[string][]byte
	etags map[string]string
}

func (w *web) ServeHTTP(out http.ResponseWriter, req *http.Request) {
	text, _ := io.ReadAll(req.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	key := req.URL.Path
	out.Header().Set("X-Web", "1")
	switch etag := w.etags[key]; {
	case req.Method == http.MethodPut && req.Header.Get("If-Match") != etag:
		out.WriteHeader(http.StatusPreconditionFailed)
	case req.Method == http.MethodPut:
		w.puts++
		w.texts[key], w.etags[key] = text, fmt.Sprintf(`"%d"`, w.puts)
		out.Header().Set("Etag", w.etags[key])
	case etag == "":
		out.WriteHeader(http.StatusNotFound)
	default:
		out.Header().Set("Etag", etag)
		_, _ = out.Write(w.texts[key])
	}
}

// webStore is a store over a web server, together with its Records.
type webStore struct {
	cas.Records
	client httpguard.Doer
	close  func()
	at     string
	// Flaws.
	takesAnySuccess, takesAnyRefusal bool
}

// webAnswer is an answer from a web server.
type webAnswer struct {
	status int
	etag   string
	body   []byte
}

func (s *webStore) ask(ctx context.Context, method, key, etag string, text []byte) (a webAnswer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, s.at+"/"+key, bytes.NewReader(text))
	if err != nil {
		return a, err
	}
	if etag != "" {
		req.Header.Set("If-Match", etag)
	}
	response, err := s.client.Do(req)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	a.status, a.etag = response.StatusCode, response.Header.Get("Etag")
	a.body, err = io.ReadAll(response.Body)
	marked := s.takesAnySuccess
	if response.StatusCode != http.StatusOK {
		marked = s.takesAnyRefusal
	}
	if err == nil && !marked && response.Header.Get("X-Web") == "" {
		err = httpguard.Foreign("the web", response, a.body)
	}
	return a, err
}

func (s *webStore) Get(ctx context.Context, key string) (cas.Item, error) {
	a, err := s.ask(ctx, http.MethodGet, key, "", nil)
	switch {
	case err != nil:
		return cas.Item{}, err
	case a.status == http.StatusNotFound:
		return cas.Item{Key: key, Now: time.Now()}, nil
	case a.status != http.StatusOK:
		return cas.Item{}, fmt.Errorf("%w: behind the proxy: %d", abstractions.ErrUnavailable, a.status)
	}
	return cas.Item{Key: key, Data: a.body, Version: a.etag, Now: time.Now()}, nil
}

func (s *webStore) Put(ctx context.Context, old cas.Item, _ *providerkit.Record, data []byte) (cas.Item, error) {
	a, err := s.ask(ctx, http.MethodPut, old.Key, old.Version, data)
	switch {
	case err != nil:
		return cas.Item{}, err
	case a.status != http.StatusOK:
		return cas.Item{}, cas.ErrConflict
	}
	return cas.Item{Key: old.Key, Data: data, Version: a.etag, Now: time.Now()}, nil
}

func (s *webStore) List(context.Context, cas.ListQuery) ([]cas.Item, string, error) {
	return nil, "", abstractions.ErrUnsupported
}

func (s *webStore) Delete(context.Context, cas.Item) error {
	return abstractions.ErrUnsupported
}

// webDriver is the driver. webStore can't be the driver, since it has different methods
// with the same names.
type webDriver struct {
	*cas.Records
	store *webStore
}

func (webDriver) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{Provider: "web", MinTTL: time.Second, Granularity: time.Millisecond, Clock: "the client's", Lateness: abstractions.Lateness{Fixed: time.Second, PerTTL: 1.01, Watched: true}}
}
func (webDriver) Classify(error) providerkit.Meaning { return providerkit.Meaning{} }
func (d webDriver) Close() error                     { d.store.close(); return nil }

// onTheWeb returns the harness of a provider over HTTP, with a flaw in each
// client.
func onTheWeb(flaw func(*webStore)) Harness {
	type served struct {
		abstractions.Provider
		server *httptest.Server
	}
	open := func(url string) abstractions.Provider {
		client := httpguard.New()
		s := &webStore{client: client, close: client.CloseIdleConnections, at: url}
		flaw(s)
		s.Records = cas.Records{Store: s, Key: cas.Naming{Max: 200}.Encode, ManualSweep: true, Expiry: &cas.Expiry{Resolution: time.Millisecond}}
		return providerkit.New(webDriver{&s.Records, s}, providerkit.Config{Timeout: 10 * time.Second})
	}
	return Harness{
		New: func(t testing.TB) abstractions.Provider {
			server := httptest.NewServer(&web{texts: map[string][]byte{}, etags: map[string]string{}})
			t.Cleanup(server.Close)
			return served{open(server.URL), server}
		},
		HTTP: func(_ testing.TB, p abstractions.Provider) Route {
			return Route{URL: p.(served).server.URL, Open: func(_ testing.TB, url string) abstractions.Provider { return open(url) }}
		},
		Watched: true,
	}.withDefaults()
}

func TestASoundProviderOverHTTPPasses(t *testing.T) {
	for _, c := range checks() {
		if c.Needs != "HTTP" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			failed, log := outcome(t, onTheWeb(func(*webStore) {}), c)
			assert.False(t, failed, log)
		})
	}
}

// httpFlaws are flaws of a provider over HTTP, with the checks that must fail.
var httpFlaws = map[string]struct {
	apply   func(*webStore)
	failing []string
}{
	"it follows redirects": {func(s *webStore) {
		client := &http.Client{Transport: &http.Transport{}}
		s.client, s.close = client, client.CloseIdleConnections
	}, []string{"HTTP_Trap_T109_ARedirectIsNoAnswer"}},
	"it takes any 200 for success": {func(s *webStore) { s.takesAnySuccess = true }, []string{"HTTP_Trap_T110_ASuccessIsTheServers", "HTTP_Manager_ALossBehindAProxyIsReported"}},
	"it takes any 404 for a loss":  {func(s *webStore) { s.takesAnyRefusal = true }, []string{"HTTP_Trap_T111_ARefusalIsTheServers", "HTTP_Manager_AProxyEndsNeitherLeaseNorWait"}},
	"it takes half an answer":      {func(s *webStore) { s.client = cutBodies{s.client} }, []string{"HTTP_Trap_T112_AnAnswerIsWhole"}},
}

// cutBodies is a client that accepts a truncated answer.
type cutBodies struct{ httpguard.Doer }

func (h cutBodies) Do(req *http.Request) (*http.Response, error) {
	response, err := h.Doer.Do(req)
	if err != nil && req.Context().Err() == nil {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Web": {"1"}, "Etag": {`"1"`}}, Body: http.NoBody, Request: req}, nil
	}
	return response, err
}

func TestChecksDetectFlawsOverHTTP(t *testing.T) {
	t.Cleanup(leaked.Wait)
	for name, flaw := range httpFlaws {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, check := range flaw.failing {
				failed, log := outcome(t, onTheWeb(flaw.apply), checkNamed(t, check))
				assert.True(t, failed, "%s does not notice it\n%s", check, log)
			}
		})
	}
}
