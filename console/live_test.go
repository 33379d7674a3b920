package console_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/console"
)

func TestEventsFollowALease(t *testing.T) {
	w := newFixture(t, console.Options{Refresh: 100 * time.Millisecond})
	leases, _ := w.events("leases")
	one, _ := w.events("lease?name=jobs%2Freport")
	require.Contains(t, leases(), "No lease is held.")
	require.Contains(t, one(), "pill free")
	lease := w.hold("jobs/report", nil)
	has := func(text string) func(string) bool {
		return func(event string) bool { return strings.Contains(event, text) }
	}
	until(leases, has("jobs/report"))
	until(one, has("pill held"))
	require.NoError(t, lease.Release(t.Context()))
	until(leases, has("No lease is held."))
	event := until(one, has("pill free"))
	require.Contains(t, event, "kind released")
	require.NotContains(t, event, "<html", "a part of the page")
}

// streaming counts the goroutines that keep pages up to date.
func streaming() int {
	stacks := make([]byte, 1<<22)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*Console).stream(")
}

func TestAStreamEndsWithItsBrowser(t *testing.T) {
	w := newFixture(t, console.Options{Refresh: time.Hour})
	before := streaming()
	var leave []func()
	for range 20 {
		next, left := w.events("leases")
		next()
		leave = append(leave, left)
	}
	require.Equal(t, before+20, streaming())
	for _, leave := range leave {
		leave()
	}
	require.Eventually(t, func() bool { return streaming() == before }, 30*time.Second, 10*time.Millisecond)
}

func TestCloseEndsStreams(t *testing.T) {
	w := newFixture(t, console.Options{Refresh: time.Hour})
	next, _ := w.events("leases")
	next()
	w.console.Close()
	require.Eventually(t, func() bool { return streaming() == 0 }, 30*time.Second, 10*time.Millisecond)
	w.page("lease?name=a") // pages are still shown
}

func TestTooManyStreams(t *testing.T) {
	w := newFixture(t, console.Options{Refresh: time.Hour})
	var last func()
	for range 200 {
		_, last = w.events("leases")
	}
	reply, _ := w.do(http.MethodGet, "live/leases", nil)
	require.Equal(t, http.StatusServiceUnavailable, reply.StatusCode)
	require.NotEmpty(t, reply.Header.Get("Retry-After"))
	w.page("")
	last()
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/leases/live/leases", nil)
		require.NoError(t, err)
		reply, err := w.client.Do(req)
		require.NoError(t, err)
		reply.Body.Close()
		return reply.StatusCode == http.StatusOK
	}, 30*time.Second, 10*time.Millisecond)
}

func TestTheLossNamesTheUserWhoBrokeTheLease(t *testing.T) {
	w := newFixture(t, console.Options{Access: token(t), AllowBreak: true, Refresh: 100 * time.Millisecond})
	lost := make(chan leasing.Event, 1)
	lease := w.hold("jobs/report", &leasing.AcquireOptions{TTL: time.Second, Observer: func(e leasing.Event) {
		if e.Kind == leasing.EventLost {
			lost <- e
		}
	}})
	next, _ := w.events("lease?name=jobs%2Freport", signedIn)
	next()
	reply, _ := w.do(http.MethodPost, "break", breaking(lease), signedIn)
	require.Equal(t, http.StatusSeeOther, reply.StatusCode)
	event := <-lost
	require.Equal(t, []string{"alice", "it hangs"}, []string{event.BrokenBy, event.BreakReason})
	until(next, func(event string) bool { return strings.Contains(event, "pill free") })
}
