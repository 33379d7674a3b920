package operations

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos/netfault"
	"github.com/distributedleasing/leasing/fencing"
	redislease "github.com/distributedleasing/leasing/providers/redis"
)

const rules = "../../operations/alerts.yml"

// atMost bounds the waits on a very slow machine.
const atMost = 2 * time.Minute

// serverURL returns the value of an environment variable that scripts/with-servers sets.
func serverURL(t *testing.T, variable string) string {
	return servertest.Require(t, variable)
}

func promtool(t *testing.T, args ...string) {
	cmd := exec.CommandContext(t.Context(), serverURL(t, "LEASING_TEST_PROMTOOL"), args...)
	cmd.Dir = filepath.Dir(rules)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The rules fire beyond their limits, but not at the limits: see alerts_test.yml.
func TestTheRules(t *testing.T) {
	promtool(t, "check", "rules", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")
}

// process is one process of a fleet: a manager of its own, measured under an address of its
// own.
type process struct {
	*leasing.Manager
	meters  *sdkmetric.MeterProvider
	metrics string // the address
}

func start(t *testing.T, rawURL, prefix string) *process {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	require.NoError(t, err)
	p := &process{meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	p.metrics = server.Listener.Addr().String()
	provider, err := redislease.Open(t.Context(), redislease.Options{URL: rawURL, Prefix: prefix})
	require.NoError(t, err)
	t.Cleanup(func() { _ = provider.Close() })
	p.Manager, err = leasing.NewManager(provider, leasing.Options{TTL: 6 * time.Second, MeterProvider: p.meters})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = p.Close(ctx)
	})
	return p
}

// watcher is a Prometheus that scrapes a fleet twice a second.
type watcher struct {
	t   *testing.T
	api string
	up  bool // it has answered
}

// watch starts a Prometheus with the rules. It shortens minutes in the rules to seconds, and adapts
// the limit on the margin to leases of six seconds.
func watch(t *testing.T, fleet ...*process) *watcher {
	dir := t.TempDir()
	text, err := os.ReadFile(rules)
	require.NoError(t, err)
	quick := regexp.MustCompile(`\[\d+m\]`).ReplaceAllString(string(text), "[10s]")
	quick = regexp.MustCompile(`for: \d+m`).ReplaceAllString(quick, "for: 2s")
	quick = strings.ReplaceAll(quick, `le=~"1|1.0"`, `le=~"0.5"`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), []byte(quick), 0o600))
	var targets []string
	for _, p := range fleet {
		targets = append(targets, fmt.Sprintf("%q", p.metrics))
	}
	config := fmt.Sprintf(`{global: {scrape_interval: 500ms, evaluation_interval: 500ms}, rule_files: [alerts.yml],
		scrape_configs: [{job_name: fleet, static_configs: [{targets: [%s]}]}]}`, strings.Join(targets, ", "))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	program := filepath.Join(filepath.Dir(serverURL(t, "LEASING_TEST_PROMTOOL")), "prometheus")
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	require.NoError(t, cmd.Start())
	w := &watcher{t: t, api: "http://" + address + "/api/v1/"}
	t.Cleanup(func() {
		_ = cmd.Wait()
		if t.Failed() {
			words, _ := os.ReadFile(log.Name())
			t.Logf("%s", words)
		}
	})
	require.Eventually(t, func() bool { return len(w.query("leasing_backend_up")) == len(fleet) }, atMost, 100*time.Millisecond)
	w.up = true
	return w
}

// ask decodes the data of Prometheus's answer into data. It ignores errors until the server is up.
func (w *watcher) ask(path string, data any) {
	body := struct {
		Status, Error string
		Data          any
	}{Data: data}
	answer, err := http.Get(w.api + path)
	if err == nil {
		defer answer.Body.Close()
		err = json.NewDecoder(answer.Body).Decode(&body)
	}
	if w.up {
		assert.NoError(w.t, err)
		assert.Equal(w.t, "success", body.Status, "%s: %s", path, body.Error)
	}
}

// query returns the current samples of an expression.
func (w *watcher) query(expr string) []any {
	var data struct{ Result []any }
	w.ask("query?query="+url.QueryEscape(expr), &data)
	return data.Result
}

// firingAlerts returns the alerts that fire.
func (w *watcher) firingAlerts() map[string]bool {
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	w.ask("alerts", &data)
	names := map[string]bool{}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			names[a.Labels["alertname"]] = true
		}
	}
	return names
}

func (w *watcher) fires(alert string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.firingAlerts()[alert] }, atMost, 200*time.Millisecond, alert)
}

// every calls the function do again and again, with a pause after each call, until ctx ends.
func every(ctx context.Context, pause time.Duration, do func()) {
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// A healthy fleet is silent. Then one lease is broken again and again, another has a
// holder that is not measured, a former holder is refused, and the server is down: each
// of these faults fires its alerts. Meanwhile each panel of the dashboard has something
// to show.
func TestTheRulesAndTheDashboardOnALiveFleet(t *testing.T) {
	server, err := url.Parse(serverURL(t, "LEASING_TEST_REDIS"))
	require.NoError(t, err)
	proxy, err := netfault.Start(server.Host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	direct, prefix := server.String(), "operations"+rand.Text()
	server.Host = proxy.Addr()
	fleet := []*process{start(t, server.String(), prefix), start(t, server.String(), prefix), start(t, server.String(), prefix)}
	otel.SetMeterProvider(fleet[0].meters) // for fences
	operator := start(t, direct, prefix)   // not measured
	w := watch(t, fleet...)

	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		working.Wait()
	})
	leads := func(p *process, name string) {
		working.Go(func() {
			for ctx.Err() == nil {
				_ = p.Do(ctx, name, func(ctx context.Context, _ *leasing.Lease) error { <-ctx.Done(); return ctx.Err() })
			}
		})
	}
	const elections = 5
	for i := range elections {
		for _, p := range fleet {
			leads(p, fmt.Sprint("leaders/", i))
		}
	}
	working.Go(func() {
		every(ctx, 50*time.Millisecond, func() {
			_ = fleet[1].TryDo(ctx, "jobs/short", func(context.Context, *leasing.Lease) error { return nil })
		})
	})
	require.Eventually(t, func() bool {
		return len(w.query(`sum(leasing_active_count{leasing_scope="leaders"}) == 5`)) > 0 && len(w.query("leasing:renewals:increase10m >= 5")) > 0
	}, atMost, 200*time.Millisecond)
	healthy, over := context.WithTimeout(ctx, 4*time.Second)
	defer over()
	every(healthy, 200*time.Millisecond, func() { require.Empty(t, w.firingAlerts(), "a healthy fleet") })

	thrash, stop := context.WithCancel(ctx)
	working.Go(func() {
		every(thrash, 300*time.Millisecond, func() {
			_, _ = fleet[2].Break(thrash, "leaders/0", leasing.BreakOptions{Immediate: true, Reason: "a test"})
			_ = fencing.Check("r", 1, 2)
		})
	})
	unsubscribe := fleet[0].Subscribe(func(leasing.Event) { panic("a test") })
	for _, alert := range []string{"LeasingLost", "LeasingThrashing", "LeasingFormerHolderRefused", "LeasingObserverPanics"} {
		w.fires(alert)
	}
	stop()
	unsubscribe()

	elsewhere, err := operator.Acquire(ctx, "leaderless/one")
	require.NoError(t, err)
	leads(fleet[0], "leaderless/one")
	w.fires("LeasingNoHolder")
	require.NoError(t, elsewhere.Release(ctx))

	require.NoError(t, proxy.Set(netfault.Conditions{Down: true}))
	w.fires("LeasingBackendDown")
	w.fires("LeasingRenewalsFail")
	seen := make([]bool, len(panels)) // whether each panel has shown data
	shown := func() bool {
		all := true
		for i, p := range panels {
			shows := true
			for _, q := range p.queries {
				expr := strings.NewReplacer("$__rate_interval", "1m", "$provider", ".*", "$scope", ".*").Replace(q.expr)
				shows = shows && len(w.query("("+expr+") >= 0")) > 0 // NaN shows nothing
			}
			seen[i] = seen[i] || shows
			all = all && seen[i]
		}
		return all
	}
	require.Eventually(t, shown, atMost, time.Second, "every panel: %v", seen)
	require.NoError(t, proxy.Heal())
	require.Eventually(t, func() bool { return len(w.firingAlerts()) == 0 }, atMost, 200*time.Millisecond, "it is well again")
}

// Each metric of the fleet has a panel, and panels and rules query only existing metrics.
func TestEachMetricIsShown(t *testing.T) {
	asked := map[string]bool{}
	name := regexp.MustCompile(`\bleasing_[a-z_]+`)
	labels := regexp.MustCompile(`^leasing_(provider|scope|lost_reason)$`)
	text, err := os.ReadFile(rules)
	require.NoError(t, err)
	queries := regexp.MustCompile(`(?m)#.*$|^ *(summary|description):.*$`).ReplaceAllString(string(text), "")
	shown := map[string]bool{}
	for _, p := range panels {
		for _, q := range p.queries {
			for _, n := range name.FindAllString(q.expr, -1) {
				shown[n] = true
			}
		}
	}
	for _, n := range name.FindAllString(queries, -1) {
		asked[n] = true
	}
	source, err := os.ReadFile("../../internal/instrument/metrics.go")
	require.NoError(t, err)
	known := map[string]bool{"leasing_fence_refused": true}
	for _, match := range regexp.MustCompile(`"(leasing(\.[a-z]+)+)", "`).FindAllStringSubmatch(string(source), -1) {
		known[strings.ReplaceAll(match[1], ".", "_")] = true
	}
	for _, match := range regexp.MustCompile(`Gauge\("(leasing(\.[a-z]+)+)"`).FindAllStringSubmatch(string(source), -1) {
		known[strings.ReplaceAll(match[1], ".", "_")] = true
	}
	require.Greater(t, len(known), 15)
	base := regexp.MustCompile(`(_seconds)?(_total|_bucket|_count|_sum)?$`)
	short := func(n string) string {
		if known[n] {
			return n
		}
		return base.ReplaceAllString(n, "")
	}
	pictured := map[string]bool{}
	for n := range shown {
		if !labels.MatchString(n) {
			pictured[short(n)] = true
		}
	}
	require.Equal(t, known, pictured)
	for n := range asked {
		if !labels.MatchString(n) {
			require.True(t, known[short(n)], n)
		}
	}
}
