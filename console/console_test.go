package console_test

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/console"
)

func TestTheListShowsWhoHoldsWhat(t *testing.T) {
	w := newFixture(t, console.Options{})
	require.Contains(t, w.page(""), "No lease is held.")
	lease := w.hold("jobs/report", &leasing.AcquireOptions{TTL: time.Hour})
	w = w.fresh(t)
	page := w.page("")
	require.Contains(t, page, `<a href="lease?name=jobs%2freport"><bdi>jobs/report</bdi></a>`)
	require.Contains(t, page, "worker-1")
	require.Contains(t, page, fmt.Sprint(lease.Token()))
	require.Regexp(t, `<span class="number">(1 h 0 min|59 min \d+ s)</span>`, page)
	require.NotContains(t, page, "End this lease")
}

// fresh returns a copy of w whose console has not read the list yet.
func (w *fixture) fresh(t *testing.T) *fixture {
	t.Helper()
	other := *w
	var err error
	other.console, err = console.New(w.manager, console.Options{Provider: w.provider})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/leases/", http.StripPrefix("/leases", other.console))
	w.server.Config.Handler = mux
	t.Cleanup(other.console.Close)
	return &other
}

func TestTheListPagesFiltersAndOrders(t *testing.T) {
	w := newFixture(t, console.Options{})
	const n = 10_000
	for i := range n {
		w.hold(fmt.Sprintf("jobs/%05d", i), &leasing.AcquireOptions{TTL: time.Hour + time.Duration(n-i)*time.Minute})
	}
	names := func(path string) (names []string, page string) {
		page = w.page(path)
		for _, found := range regexp.MustCompile(`<bdi>(jobs/\d+)</bdi></a>`).FindAllStringSubmatch(page, -1) {
			names = append(names, found[1])
		}
		return names, page
	}
	first, page := names("")
	require.Len(t, first, 100)
	require.Equal(t, "jobs/00000", first[0])
	require.Contains(t, page, "1–100 of 10,000")
	require.Contains(t, page, `href="./?page=2"`)
	require.Less(t, len(page), 120_000, "bytes of a page")
	last, page := names("?page=100")
	require.Equal(t, "jobs/09999", last[99])
	require.Contains(t, page, "9,901–10,000 of 10,000")
	beyond, _ := names("?page=4711")
	require.Equal(t, last, beyond)
	shortest, _ := names("?sort=left")
	require.Equal(t, "jobs/09999", shortest[0])
	oldest, _ := names("?sort=held")
	require.Equal(t, "jobs/00000", oldest[0])
	found, page := names("?q=JOBS%2F0123&sort=left")
	require.Len(t, found, 10)
	require.Contains(t, page, "1–10 of 10")
	require.Contains(t, page, `href="./?q=JOBS%2F0123&amp;sort=owner"`)
	byOwner, _ := names("?q=Worker-1")
	require.Len(t, byOwner, 100)
	none, page := names("?q=nobody")
	require.Empty(t, none)
	require.Contains(t, page, `href="lease?name=nobody"`)
	none, page = names("?show=breaking")
	require.Empty(t, none)
	require.Contains(t, page, "No lease is in this state.")
	_, err := w.manager.Break(t.Context(), "jobs/00007", leasing.BreakOptions{})
	require.NoError(t, err)
	w = w.fresh(t)
	breaking, _ := names("?show=breaking")
	require.Equal(t, []string{"jobs/00007"}, breaking)
}

func TestALeaseThatNobodyRenewsRunsLow(t *testing.T) {
	w := newFixture(t, console.Options{Refresh: 100 * time.Millisecond})
	w.hold("jobs/late", &leasing.AcquireOptions{TTL: 5 * time.Second, NoAutoRenew: true})
	w.hold("jobs/fine", &leasing.AcquireOptions{TTL: time.Hour})
	next, _ := w.events("leases?show=low")
	require.NotContains(t, next(), "jobs/late")
	event := until(next, func(event string) bool { return strings.Contains(event, "jobs/late") })
	require.Contains(t, event, `<span class="pill low">running low</span>`)
	require.NotContains(t, event, "jobs/fine")
}

// All viewers share one list. It is read at a bounded rate, and not at all without viewers.
func TestTheListIsShared(t *testing.T) {
	w := newFixture(t, console.Options{Refresh: time.Hour})
	require.Zero(t, w.provider.lists.Load())
	for range 3 {
		next, _ := w.events("leases")
		next()
		w.page("?q=x")
	}
	require.EqualValues(t, 1, w.provider.lists.Load())
}

// While the backend does not answer, the page shows the last known list and says that it is old.
func TestAListThatFails(t *testing.T) {
	w := newFixture(t, console.Options{Refresh: 100 * time.Millisecond})
	w.hold("jobs/report", nil)
	next, _ := w.events("leases")
	require.Contains(t, next(), "jobs/report")
	failure := fmt.Errorf("%w: <b>no route</b>", leasing.ErrUnavailable)
	w.provider.fail.Store(&failure)
	event := until(next, func(event string) bool { return strings.Contains(event, "does not answer") })
	require.Contains(t, event, "jobs/report")
	require.Contains(t, event, "&lt;b&gt;no route")
	require.Contains(t, event, "This is from ")
	w.provider.fail.Store(nil)
	until(next, func(event string) bool { return !strings.Contains(event, "does not answer") })
	unsupported := leasing.ErrUnsupported
	w.provider.fail.Store(&unsupported)
	require.Contains(t, until(next, func(event string) bool { return !strings.Contains(event, "jobs/report") }), "can't list its names")
}

// A list that was never read is not shown as empty.
func TestAListThatFailsFromTheBeginning(t *testing.T) {
	w := newFixture(t, console.Options{Refresh: 100 * time.Millisecond})
	w.hold("jobs/report", nil)
	w.provider.fail.Store(&leasing.ErrUnavailable)
	page := w.page("")
	require.Contains(t, page, "Nothing is known yet.")
	require.NotContains(t, page, "No lease is held.")
	next, _ := w.events("leases")
	require.NotContains(t, next(), "No lease is held.")
	w.provider.fail.Store(nil)
	until(next, func(event string) bool { return strings.Contains(event, "jobs/report") })
}

// A backend that hangs does not delay a page for long, and the page reports the missing answer.
func TestAListThatHangs(t *testing.T) {
	w := newFixture(t, console.Options{Refresh: 100 * time.Millisecond})
	hang := make(chan struct{})
	defer close(hang)
	w.provider.hang.Store(&hang)
	page := w.page("")
	require.Contains(t, page, "no answer for 5s")
	require.NotContains(t, page, "No lease is held.")
}

func TestOneName(t *testing.T) {
	w := newFixture(t, console.Options{})
	lease := w.hold("jobs/report", &leasing.AcquireOptions{TTL: time.Hour, Metadata: map[string]string{"host": "a1"}})
	page := w.page("lease?name=jobs%2Freport")
	for _, want := range []string{"worker-1", fmt.Sprint(lease.Token()), leasing.FingerprintOf(lease.ID()).String(), ">host<", ">a1<", `<span class="kind acquired">`, "59 min"} {
		require.Contains(t, page, want)
	}
	_, err := w.manager.Break(t.Context(), "jobs/report", leasing.BreakOptions{Actor: "alice", Reason: "stuck since noon"})
	require.NoError(t, err)
	page = w.page("lease?name=jobs%2Freport")
	require.Contains(t, page, `Broken by <b><bdi>alice</bdi></b>: <bdi>stuck since noon</bdi>`)
	require.Regexp(t, `kind broken">broken</span> <span class="why">by <b><bdi>alice</bdi></b>: <bdi>stuck since noon</bdi>(.|\n)*kind acquired`, page) // newest first
	require.Contains(t, w.page("lease?name=never"), "never held, or forgotten")
	for _, bad := range []string{"", "a%00b", strings.Repeat("x", 513), "%ff"} {
		status, _ := w.get("lease?name=" + bad)
		require.Equal(t, http.StatusNotFound, status, bad)
	}
}

// The first page of a history has the newest entries, and links to the older entries.
func TestALongHistoryIsPaged(t *testing.T) {
	w := newFixture(t, console.Options{Refresh: 100 * time.Millisecond})
	var tokens []int64
	for range 40 {
		lease := w.hold("busy", nil)
		tokens = append(tokens, lease.Token())
		require.NoError(t, lease.Release(t.Context()))
	}
	entries := func(page string) (found []string) {
		for _, entry := range regexp.MustCompile(`(?s)kind (\w+)".*?end number">(\d+)<`).FindAllStringSubmatch(page, -1) {
			found = append(found, entry[1]+" "+entry[2])
		}
		return found
	}
	var want []string // newest first
	for _, token := range slices.Backward(tokens) {
		want = append(want, fmt.Sprint("released ", token), fmt.Sprint("acquired ", token))
	}
	page := w.page("lease?name=busy")
	require.Equal(t, want[:50], entries(page))
	require.NotContains(t, page, ">Newest</a>")
	older := regexp.MustCompile(`href="(lease\?name=busy&amp;before=\d+)" rel="next"`).FindStringSubmatch(page)
	require.NotNil(t, older)
	path := strings.ReplaceAll(older[1], "&amp;", "&")
	page = w.page(path)
	require.Equal(t, want[50:], entries(page))
	require.NotContains(t, page, `rel="next"`)
	require.Contains(t, page, `data-src="live/`+older[1]+`"`)
	require.Contains(t, page, `href="lease?name=busy">Newest</a>`)
	require.Contains(t, w.page("lease?name=busy&before=x"), "The backend refuses.")

	earlier, _ := w.events(path)
	require.Equal(t, want[50:], entries(earlier()))
	next, _ := w.events("lease?name=busy")
	require.Contains(t, next(), "pill free")
	last := w.hold("busy", nil)
	event := until(next, func(event string) bool { return strings.Contains(event, "pill held") })
	require.Contains(t, event, leasing.FingerprintOf(last.ID()).String())
	require.Equal(t, fmt.Sprint("acquired ", last.Token()), entries(event)[0])
	event = until(earlier, func(event string) bool { return strings.Contains(event, "pill held") })
	require.Equal(t, want[50:], entries(event), "what is looked at stays")
}

// A history that was not read is not shown as empty.
func TestAHistoryThatFails(t *testing.T) {
	w := newFixture(t, console.Options{})
	require.NoError(t, w.hold("jobs/report", nil).Release(t.Context()))
	w.provider.fail.Store(&leasing.ErrDenied)
	page := w.page("lease?name=jobs%2Freport")
	require.Contains(t, page, "The backend refuses.")
	require.NotContains(t, page, "Nothing is known to have happened")
}

// The health page answers an operator's first question: does the backend answer, and if not, since
// when.
func TestHealth(t *testing.T) {
	w := newFixture(t, console.Options{Prefix: "jobs/", Refresh: 100 * time.Millisecond, Access: token(t), AllowBreak: true, Hosts: []string{"ops.example.com"}})
	w.hold("jobs/report", nil)
	require.Contains(t, w.page("", signedIn), `href="health"`)
	page := w.page("health", signedIn)
	for _, want := range []string{
		`pill healthy`, `memory answered a ping in`, "<dd>1</dd>", "worker-1", "is kept", "<code><bdi>jobs/</bdi></code>", "as ops.example.com", "look, and end leases", "100ms",
		template.HTMLEscapeString(w.manager.Capabilities().Clock),
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, secret)
	next, _ := w.events("health", signedIn)
	require.Contains(t, next(), "pill healthy")
	failure := fmt.Errorf("%w: <b>no route</b>", leasing.ErrUnavailable)
	w.provider.fail.Store(&failure)
	event := until(next, func(event string) bool { return strings.Contains(event, "pill unhealthy") })
	require.Contains(t, event, "&lt;b&gt;no route")
	require.Contains(t, event, "failed a ping after")
	w.provider.fail.Store(nil)
	until(next, func(event string) bool { return strings.Contains(event, "pill healthy") })
	status, _ := w.get("health")
	require.Equal(t, http.StatusUnauthorized, status)
}

func TestOnlyNamesWithThePrefix(t *testing.T) {
	w := newFixture(t, console.Options{Prefix: "mine/", Access: token(t), AllowBreak: true})
	w.hold("mine/a", nil)
	w.hold("other/a", nil)
	page := w.page("", signedIn)
	require.Contains(t, page, "mine/a")
	require.NotContains(t, page, "other/a")
	for _, path := range []string{"lease?name=other/a", "live/lease?name=other/a", "break?name=other/a"} {
		status, _ := w.get(path, signedIn)
		require.Equal(t, http.StatusNotFound, status, path)
	}
	reply, _ := w.do(http.MethodPost, "break", url.Values{"name": {"other/a"}, "typed": {"other/a"}, "token": {"1"}, "reason": {"x"}}, signedIn)
	require.Equal(t, http.StatusNotFound, reply.StatusCode)
}

// Texts from other clients are shown as text, never as HTML, and their invisible characters are
// escaped.
func TestHostileTexts(t *testing.T) {
	const script = `<script>alert(1)</script>`
	const evil = `"'><img src=x onerror=alert(1)>{{.}}` + "\u202e\u200b&amp;"
	w := newFixture(t, console.Options{Access: token(t), AllowBreak: true})
	manager, err := leasing.NewManager(w.provider, leasing.Options{Owner: script + evil})
	require.NoError(t, err)
	lease, err := manager.With(leasing.AcquireOptions{TTL: time.Hour, Metadata: map[string]string{evil: script + "\n\x1b[31m"}}).TryAcquire(t.Context(), evil+script)
	require.NoError(t, err)
	_, err = manager.Break(t.Context(), evil+script, leasing.BreakOptions{Actor: evil, Reason: script})
	require.NoError(t, err)
	query := url.Values{"name": {evil + script}}.Encode()
	for _, path := range []string{"", "?q=" + url.QueryEscape(evil), "?sort=" + url.QueryEscape(evil) + "&show=" + url.QueryEscape(script), "lease?" + query, "break?" + query, "lease?name=" + url.QueryEscape(evil)} {
		page := w.page(path, signedIn)
		require.NotContains(t, page, "<script>alert", path)
		require.NotContains(t, page, "<img src=x", path)
		text := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(page, "") // a form has to send names as they are
		require.NotContains(t, text, "\u202e", path+": turns the text around")
		require.NotContains(t, text, "\x1b", path)
		require.NotRegexp(t, `<[^>]*(\son[a-z]+=|javascript:|alert)`, text, path)
	}
	require.Contains(t, w.page("lease?"+query, signedIn), `\u202e\u200b&amp;amp;&lt;script&gt;`)
	require.NoError(t, errors.Join(ignoring(lease.Release(t.Context()), leasing.ErrLost), manager.Close(t.Context())))
}

func ignoring(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

func TestHeaders(t *testing.T) {
	w := newFixture(t, console.Options{})
	for _, path := range []string{"", "lease?name=a", "health", "style.css", "console.js", "nothing"} {
		reply, body := w.do(http.MethodGet, path, nil)
		require.Contains(t, reply.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';", path)
		require.Contains(t, reply.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'", path)
		require.Equal(t, "nosniff", reply.Header.Get("X-Content-Type-Options"), path)
		require.NotRegexp(t, `(?i)<script>|<style|style="| on[a-z]+="|https?://[^w]`, body, path) // www.w3.org names SVG
	}
	reply, _ := w.do(http.MethodGet, "nothing", nil)
	require.Equal(t, http.StatusNotFound, reply.StatusCode)
	reply, _ = w.do(http.MethodPost, "lease?name=a", nil)
	require.Equal(t, http.StatusMethodNotAllowed, reply.StatusCode)
}

func TestOptionsThatCantWork(t *testing.T) {
	w := newFixture(t, console.Options{})
	for field, options := range map[string]console.Options{
		"Options.Refresh":    {Refresh: time.Millisecond},
		"Options.AllowBreak": {AllowBreak: true},
	} {
		_, err := console.New(w.manager, options)
		var invalid *leasing.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, field, invalid.Field)
	}
	_, err := console.New(nil, console.Options{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	_, err = console.Token("short")
	require.ErrorIs(t, err, leasing.ErrInvalid)
	require.NotContains(t, err.Error(), "short")
	_, err = console.ProxyUser("")
	require.ErrorIs(t, err, leasing.ErrInvalid)
}

var _ abstractions.Lister = (*countingProvider)(nil)
