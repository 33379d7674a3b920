// Package console_test tests the pages of module console in a real Chromium.
package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/console"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

const secret = "a-token-of-enough-bytes"

// timeout bounds the time that a browser on a busy machine may take.
const timeout = time.Minute

// newBrowser starts Chromium.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	program := servertest.Require(t, "LEASING_TEST_CHROMIUM")
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.NoSandbox, // root can't use the sandbox; all pages are ours
		chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"),
		chromedp.Flag("disable-dev-shm-usage", true),
	)...)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewContext(ctx)
	t.Cleanup(stop)
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// tab is a browser tab that shares nothing with other tabs. An error on the page,
// such as a refusal by the content policy, fails the test, unless complaints are
// expected.
type tab struct {
	t          *testing.T
	ctx        context.Context
	mu         sync.Mutex
	complaints []string
}

func newTab(t *testing.T, browser context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			p.complaints = append(p.complaints, event.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			p.complaints = append(p.complaints, event.Entry.Text)
		}
	}))
	p.do(command(log.Enable, struct{}{}))
	t.Cleanup(func() {
		if t.Failed() {
			p.screenshot("failed")
		}
		require.Empty(t, p.takeComplaints())
	})
	return p
}

// takeComplaints returns the errors so far, and clears the list.
func (p *tab) takeComplaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.complaints = nil }()
	return p.complaints
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

// open goes to a page and returns the status of the answer.
func (p *tab) open(url string) int {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	reply, err := chromedp.RunResponse(ctx, chromedp.Navigate(url))
	require.NoError(p.t, err)
	return int(reply.Status)
}

// evaluate returns the value of an expression.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	require.NoError(p.t, err)
	return value
}

// wait waits until an expression is true.
func (p *tab) wait(expression string) {
	p.t.Helper()
	if !eventually(func() bool {
		value, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](expression))
		return err == nil && value
	}) {
		require.Fail(p.t, "never true: "+expression, evaluate[string](p, "document.documentElement.innerText"))
	}
}

func eventually(holds func() bool) bool {
	for end := time.Now().Add(timeout); time.Now().Before(end); {
		if holds() {
			return true
		}
		<-time.After(20 * time.Millisecond)
	}
	return false
}

// says waits for a text on the page.
func (p *tab) says(text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// signIn supplies the name and the password once, when the browser requests sign-in.
func (p *tab) signIn(user, password string) {
	p.t.Helper()
	asked := false
	require.NoError(p.t, chromedp.Listen(p.ctx, func(event any) {
		switch event := event.(type) {
		case *fetch.EventAuthRequired:
			answer := &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseProvideCredentials, Username: user, Password: password}
			if asked {
				answer = &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseCancelAuth}
			}
			asked = true
			go chromedp.Call(p.ctx, fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{RequestID: event.RequestID, AuthChallengeResponse: answer})
		case *fetch.EventRequestPaused:
			go chromedp.Call(p.ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: event.RequestID})
		}
	}))
	handle := true
	p.do(command(fetch.Enable, fetch.EnableParams{HandleAuthRequests: &handle}))
}

// screenshot saves a screenshot in the folder that LEASING_TEST_SCREENSHOTS names, if that
// variable is set.
func (p *tab) screenshot(name string) {
	p.t.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	require.NoError(p.t, err)
	require.NotEmpty(p.t, picture)
	if folder := os.Getenv("LEASING_TEST_SCREENSHOTS"); folder != "" {
		require.NoError(p.t, os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644))
	}
}

// look sets the size of the window, such as that of a phone or a desktop, and the color scheme.
func (p *tab) look(width, height int64, scheme string) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height), command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}))
}

// world is a console over the memory provider, mounted under a prefix.
type world struct {
	t        *testing.T
	provider leasing.Provider
	url      string
}

// overdueProvider is the memory provider, but the holders of some names seem to be late with
// their renewals.
type overdueProvider struct {
	leasing.Provider
	names []string
}

func (p overdueProvider) As(target any) bool {
	switch target := target.(type) {
	case *abstractions.Lister:
		*target = p
	case *abstractions.HistoryReader:
		*target, _ = abstractions.As[abstractions.HistoryReader](p.Provider)
	case *abstractions.Waiter:
		*target, _ = abstractions.As[abstractions.Waiter](p.Provider)
	case *abstractions.WaiterLister:
		*target, _ = abstractions.As[abstractions.WaiterLister](p.Provider)
	default:
		return false
	}
	return true
}

func (p overdueProvider) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	lister, _ := abstractions.As[abstractions.Lister](p.Provider)
	page, err := lister.List(ctx, req)
	for i, record := range page.Records {
		if slices.Contains(p.names, record.Name) {
			page.Records[i].ExpiresAt = record.Now.Add(record.TTL / 5)
		}
	}
	return page, err
}

func newWorld(t *testing.T, options console.Options, late ...string) *world {
	t.Helper()
	w := &world{t: t, provider: overdueProvider{memlease.New(memlease.Options{History: 1000}), late}}
	options.Provider, options.Refresh = w.provider, 100*time.Millisecond
	page, err := console.New(w.manager("console"), options)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/ops/leases/", http.StripPrefix("/ops/leases", page))
	server := httptest.NewServer(mux)
	w.url = server.URL + "/ops/leases/"
	t.Cleanup(func() {
		page.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return w
}

func (w *world) manager(owner string) *leasing.Manager {
	w.t.Helper()
	manager, err := leasing.NewManager(w.provider, leasing.Options{Owner: owner, TTL: time.Minute})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // the held leases may run out
		_ = manager.Close(ctx)
	})
	return manager
}

func (w *world) hold(manager *leasing.Manager, name string, options *leasing.AcquireOptions) *leasing.Lease {
	w.t.Helper()
	m := manager
	if options != nil {
		m = m.With(*options)
	}
	lease, err := m.TryAcquire(w.t.Context(), name)
	require.NoError(w.t, err)
	return lease
}

func token(t *testing.T) console.Access {
	t.Helper()
	access, err := console.Token(secret)
	require.NoError(t, err)
	return access
}

// command returns a step that sends a command of Chromium's DevTools protocol.
func command[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, command, params)
		return chromedp.Void{}, err
	}
}
