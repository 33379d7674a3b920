package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/console"
)

// The test's name ends with the backend of the leases: memory.
func TestConsoleInChromium_memory(t *testing.T) {
	browser := newBrowser(t)
	for name, test := range map[string]func(*testing.T, context.Context){
		"follows a lease":               followsALease,
		"breaks a lease":                breaksALease,
		"refuses without rights":        refusesWithoutRights,
		"refuses a wrong token":         refusesAWrongToken,
		"refuses another origin":        refusesAnotherOrigin,
		"shows hostile texts":           showsHostileTexts,
		"pages through many":            pagesThroughMany,
		"can be read without scripts":   canBeReadWithoutScripts,
		"stops looking when it is left": stopsLooking,
		"looks well":                    looksWell,
	} {
		t.Run(name, func(t *testing.T) { test(t, browser) })
	}
}

// followsALease: a lease appears, changes hands and ends, without a reload of the page.
func followsALease(t *testing.T, browser context.Context) {
	w := newWorld(t, console.Options{})
	list, one := newTab(t, browser), newTab(t, browser)
	require.Equal(t, http.StatusOK, list.open(w.url))
	require.Equal(t, http.StatusOK, one.open(w.url+"lease?name=jobs/report"))
	for _, p := range []*tab{list, one} {
		p.wait(`document.getElementById("state").textContent === "live"`)
		evaluate[int](p, "window.loaded = 1")
	}
	list.says("No lease is held.")
	one.says("never held")

	first, second := w.manager("worker-1"), w.manager("worker-2")
	w.hold(first, "jobs/always", nil)
	lease := w.hold(first, "jobs/report", nil)
	for _, p := range []*tab{list, one} {
		p.says("worker-1")
		p.says(strconv.FormatInt(lease.Token(), 10))
	}
	// A link that the user has focused stays focused while rows come and go.
	evaluate[bool](list, `document.querySelector("a[href$='jobs%2falways']").focus(); true`)
	w.hold(first, "a/first", nil)
	list.says("a/first")

	require.NoError(t, lease.Release(t.Context()))
	next := w.hold(second, "jobs/report", nil)
	for _, p := range []*tab{list, one} {
		p.says("worker-2")
		p.says(strconv.FormatInt(next.Token(), 10))
	}
	require.NoError(t, next.Release(t.Context()))
	list.wait(`!document.body.innerText.includes("jobs/report")`)
	one.says("Last token")
	require.Equal(t, 2, strings.Count(evaluate[string](one, "document.body.innerText"), "acquired"))
	require.Equal(t, "jobs/always", evaluate[string](list, "document.activeElement.textContent"))
	for _, p := range []*tab{list, one} {
		require.Equal(t, 1, evaluate[int](p, "window.loaded"), "the page was not loaded again")
	}
}

func breaksALease(t *testing.T, browser context.Context) {
	w := newWorld(t, console.Options{Access: token(t), AllowBreak: true})
	lost := make(chan leasing.Event, 1)
	lease := w.hold(w.manager("worker-1"), "jobs/report", &leasing.AcquireOptions{TTL: 2 * time.Second, Observer: func(e leasing.Event) {
		if e.Kind == leasing.EventLost {
			lost <- e
		}
	}})
	p := newTab(t, browser)
	p.signIn("alice", secret)
	require.Equal(t, http.StatusOK, p.open(w.url))
	p.do(chromedp.Click(chromedp.CSS(".leases .name a")))
	p.says("End this lease…")
	p.do(chromedp.Click(chromedp.CSS("a.danger")))
	p.says("End token " + strconv.FormatInt(lease.Token(), 10))
	p.do(chromedp.SendKeys(chromedp.CSS("input[name=typed]"), "jobs/repost"), chromedp.SendKeys(chromedp.CSS("input[name=reason]"), "it hangs since noon"), chromedp.Click(chromedp.CSS("button.danger")))
	p.says("The name that you typed does not match.")
	require.Len(t, p.takeComplaints(), 1) // Chromium logs the status
	require.NoError(t, lease.Err())
	p.do(chromedp.SetValue(chromedp.CSS("input[name=typed]"), "jobs/report"), chromedp.Click(chromedp.CSS("button.danger")))
	event := <-lost
	require.Equal(t, []string{"alice", "it hangs since noon"}, []string{event.BrokenBy, event.BreakReason})
	p.wait(`document.querySelector(".history .broken") !== null`)
	p.says("by alice: it hangs since noon")
	p.says("Last token")
}

// refusesWithoutRights: there is no button, and a request that a script sends is refused.
func refusesWithoutRights(t *testing.T, browser context.Context) {
	w := newWorld(t, console.Options{})
	lease := w.hold(w.manager("worker-1"), "jobs/report", nil)
	p := newTab(t, browser)
	require.Equal(t, http.StatusOK, p.open(w.url+"lease?name=jobs/report"))
	p.says("worker-1")
	require.False(t, evaluate[bool](p, `document.querySelector("a.danger") !== null`))
	evaluate[bool](p, fmt.Sprintf(`fetch("break", {method: "POST", body: new URLSearchParams({name: "jobs/report", typed: "jobs/report", token: "%d", reason: "x"})}).then((r) => window.status_ = r.status); true`, lease.Token()))
	p.wait("window.status_ === 403")
	require.Len(t, p.takeComplaints(), 1)
	require.NoError(t, lease.Renew(t.Context()))
}

func refusesAWrongToken(t *testing.T, browser context.Context) {
	w := newWorld(t, console.Options{Access: token(t), AllowBreak: true})
	w.hold(w.manager("worker-1"), "jobs/report", nil)
	p := newTab(t, browser)
	p.signIn("mallory", "not-the-token-at-all")
	require.Equal(t, http.StatusUnauthorized, p.open(w.url+"break?name=jobs/report"))
	p.says("Sign in with your name")
	require.NotContains(t, evaluate[string](p, "document.body.innerText"), "worker-1")
	p.takeComplaints()
}

// refusesAnotherOrigin: the console refuses a form from another site, in a browser that is signed
// in, and a request for a host name that the other site has pointed at this machine.
func refusesAnotherOrigin(t *testing.T, browser context.Context) {
	w := newWorld(t, console.Options{Access: token(t), AllowBreak: true})
	lease := w.hold(w.manager("worker-1"), "jobs/report", nil)
	evil := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(out, `<form method="post" action="%sbreak"><input name="name" value="jobs/report"><input name="typed" value="jobs/report">
			<input name="token" value="%d"><input name="reason" value="x"><button>Win a prize</button></form>`, w.url, lease.Token())
	}))
	defer evil.Close()
	p := newTab(t, browser)
	p.signIn("alice", secret)
	require.Equal(t, http.StatusOK, p.open(w.url))
	p.says("worker-1")
	for _, site := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
		require.Equal(t, http.StatusOK, p.open(site))
		p.do(chromedp.Click(chromedp.CSS("button")))
		p.says("This request came from a page of another origin.")
	}
	require.NoError(t, lease.Renew(t.Context()))
	require.Equal(t, http.StatusMisdirectedRequest, p.open(strings.Replace(w.url, "127.0.0.1", "evil.example", 1)))
	p.says("does not answer under this host name")
	p.takeComplaints()
}

func showsHostileTexts(t *testing.T, browser context.Context) {
	const hostile = `"><img src=x onerror="window.bad=1"><script>window.bad=1</script>{{.}}` + "\u202e"
	w := newWorld(t, console.Options{})
	list, one := newTab(t, browser), newTab(t, browser)
	require.Equal(t, http.StatusOK, list.open(w.url))
	require.Equal(t, http.StatusOK, one.open(w.url+"lease?"+url.Values{"name": {hostile}}.Encode()))
	one.says("never held")
	lease := w.hold(w.manager(hostile), hostile, &leasing.AcquireOptions{Metadata: map[string]string{hostile: hostile}})
	for _, p := range []*tab{list, one} {
		p.says(`window.bad=1</script>{{.}}\u202e`)
		p.wait(`document.querySelector("main img, main script") === null && window.bad === undefined`)
	}
	list.do(chromedp.Click(chromedp.CSS(".leases .name a")))
	list.says(leasing.FingerprintOf(lease.ID()).String()) // the link leads to this name
}

func pagesThroughMany(t *testing.T, browser context.Context) {
	w := newWorld(t, console.Options{})
	manager := w.manager("worker-1")
	for i := range 10_000 {
		w.hold(manager, fmt.Sprintf("jobs/%05d", i), nil)
	}
	p := newTab(t, browser)
	require.Equal(t, http.StatusOK, p.open(w.url))
	p.says("1–100 of 10,000")
	p.do(chromedp.Click(chromedp.CSS("a[rel=next]")))
	p.says("101–200 of 10,000")
	p.wait(`document.getElementById("state").textContent === "live"`)
	require.Equal(t, 100, evaluate[int](p, `document.querySelectorAll(".leases tbody tr").length`))
	p.do(chromedp.SendKeys(chromedp.CSS("input[name=q]"), "0999\r"))
	p.says("1–11 of 11")
	p.says("jobs/09990")
	w.hold(manager, "zz/09990999", nil)
	p.says("1–12 of 12") // the list is live, and filtered

	for range 30 {
		require.NoError(t, w.hold(manager, "busy", nil).Release(t.Context()))
	}
	entries := `document.querySelectorAll(".history tbody tr").length`
	require.Equal(t, http.StatusOK, p.open(w.url+"lease?name=busy"))
	require.Equal(t, 50, evaluate[int](p, entries))
	p.do(chromedp.Click(chromedp.CSS("a[rel=next]")))
	p.wait(entries + " === 10")
	p.wait(`document.getElementById("state").textContent === "live"`)
	lease := w.hold(manager, "busy", nil)
	p.says(leasing.FingerprintOf(lease.ID()).String()) // the lease is live
	require.Equal(t, 10, evaluate[int](p, entries), "and what is looked at of its history stays")
	p.do(chromedp.Click(chromedp.CSS(".pages a")))
	p.wait(entries + " === 50")
}

func canBeReadWithoutScripts(t *testing.T, browser context.Context) {
	w := newWorld(t, console.Options{Access: token(t), AllowBreak: true})
	lease := w.hold(w.manager("worker-1"), "jobs/report", nil)
	p := newTab(t, browser)
	p.signIn("alice", secret)
	p.do(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	require.Equal(t, http.StatusOK, p.open(w.url))
	p.do(chromedp.SendKeys(chromedp.CSS("input[name=q]"), "report\r"))
	p.do(chromedp.WaitVisible(chromedp.CSS("a.quiet[href='./?']"))) // Clear
	p.do(chromedp.Click(chromedp.CSS(".leases .name a")))
	p.do(chromedp.Click(chromedp.CSS("a.danger")))
	p.do(chromedp.SendKeys(chromedp.CSS("input[name=typed]"), "jobs/report"), chromedp.SendKeys(chromedp.CSS("input[name=reason]"), "gone"), chromedp.Click(chromedp.CSS("button.danger")))
	p.do(chromedp.WaitVisible(chromedp.CSS(".pill.breaking")))
	require.ErrorIs(t, lease.Renew(t.Context()), leasing.ErrLost)
}

// stopsLooking: a page that the user has left sends no more requests.
func stopsLooking(t *testing.T, browser context.Context) {
	w := newWorld(t, console.Options{})
	p := newTab(t, browser)
	require.Equal(t, http.StatusOK, p.open(w.url))
	p.wait(`document.getElementById("state").textContent === "live"`)
	evaluate[bool](p, `Object.defineProperty(document, "hidden", {value: true, configurable: true}); document.dispatchEvent(new Event("visibilitychange")); true`)
	w.hold(w.manager("worker-1"), "jobs/report", nil)
	evaluate[bool](p, `delete document.hidden; window.before = document.body.innerText; document.dispatchEvent(new Event("visibilitychange")); true`)
	require.NotContains(t, evaluate[string](p, "window.before"), "jobs/report")
	p.says("jobs/report")
}
