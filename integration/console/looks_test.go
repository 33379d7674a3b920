package console_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/console"
)

// looksWell: on a phone and on a desktop, light and dark, nothing is cut off and every text can
// be read. LEASING_TEST_SCREENSHOTS names a folder for the pictures.
func looksWell(t *testing.T, browser context.Context) {
	w := newWorld(t, console.Options{Access: token(t), AllowBreak: true}, "mail/outbox")
	fleet := []*leasing.Manager{w.manager("billing-7d9f8b6c4-x2kqp/1"), w.manager("worker-1.eu-west.example.com/4711"), w.manager("cron")}
	for i, name := range []string{"billing/invoices/2026-11", "billing/dunning", "cluster/leader", "etl/orders/hourly", "etl/customers/nightly", "search/reindex", "migrations/schema", "reports/daily-maintenance", "cursor/events/shard-0", "cursor/events/shard-1", "cursor/events/shard-2", "a/" + strings.Repeat("very-long-name-", 12)} {
		w.hold(fleet[i%len(fleet)], name, &leasing.AcquireOptions{TTL: time.Duration(i+1) * 20 * time.Second})
	}
	w.hold(fleet[0], "backup/nightly", &leasing.AcquireOptions{TTL: 3 * time.Minute})
	w.hold(fleet[1], "cluster/config", &leasing.AcquireOptions{TTL: leasing.Infinite})
	w.hold(fleet[2], "mail/outbox", &leasing.AcquireOptions{TTL: 90 * time.Second})
	for range 3 {
		require.NoError(t, w.hold(fleet[1], "orders/export", nil).Release(t.Context()))
	}
	w.hold(fleet[2], "orders/export", nil)
	_, err := fleet[0].Break(t.Context(), "orders/export", leasing.BreakOptions{Immediate: true, Actor: "bob", Reason: "host was reclaimed"})
	require.NoError(t, err)
	w.hold(fleet[0], "orders/export", &leasing.AcquireOptions{TTL: time.Hour, Metadata: map[string]string{"host": "ip-10-1-2-3", "build": "2026.11.2", "progress": "41 of 96 files"}})
	_, err = fleet[0].Break(t.Context(), "orders/export", leasing.BreakOptions{Actor: "alice", Reason: "stuck on file 41 since noon; the pod is gone"})
	require.NoError(t, err)

	waiting, stop := context.WithCancel(t.Context())
	defer stop()
	for _, manager := range []*leasing.Manager{fleet[0], w.manager("cron-2")} {
		go func() { _, _ = manager.Acquire(waiting, "cluster/leader") }()
	}
	require.True(t, eventually(func() bool { all, _ := fleet[0].Waiters(t.Context(), "cluster/leader"); return len(all) == 2 }))

	ill := newWorld(t, console.Options{})
	require.NoError(t, ill.provider.Close())

	p := newTab(t, browser)
	p.signIn("alice", secret)
	for name, url := range map[string]string{
		"leases": w.url, "lease": w.url + "lease?name=orders/export", "held": w.url + "lease?name=cluster/leader", "break": w.url + "break?name=billing/dunning",
		"health": w.url + "health", "ill": ill.url + "health", "nothing": w.url + "?q=nobody+has+this", "refused": w.url + "nothing",
	} {
		for window, size := range map[string][2]int64{"desk": {1280, 800}, "phone": {390, 844}} {
			for _, scheme := range []string{"light", "dark"} {
				p.look(size[0], size[1], scheme)
				status := p.open(url)
				require.Equal(t, name == "refused", status == http.StatusNotFound)
				where := fmt.Sprintf("%s-%s-%s", name, window, scheme)
				if name != "break" && name != "refused" {
					p.wait(`document.getElementById("state").textContent === "live"`)
				}
				p.screenshot(where)
				require.LessOrEqual(t, evaluate[int](p, "document.documentElement.scrollWidth"), int(size[0]), where+" is too wide")
				require.Empty(t, evaluate[[]string](p, contrast), where+": texts that can hardly be read")
			}
		}
	}
	p.takeComplaints()
}

// contrast lists the texts whose contrast is less than 4.5 to 1, the minimum of WCAG 2 (1.4.3).
const contrast = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const rgb = (color, under) => {
		canvas.fillStyle = under || "#fff"; canvas.fillRect(0, 0, 1, 1);
		canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
		return "rgb(" + Array.from(canvas.getImageData(0, 0, 1, 1).data).slice(0, 3).join() + ")";
	};
	const ground = (e) => e ? rgb(getComputedStyle(e).backgroundColor, ground(e.parentElement)) : "#fff";
	const light = (color) => {
		const [r, g, b] = color.match(/\d+/g).map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	return Array.from(document.querySelectorAll("body *")).filter((e) => !e.closest("svg") && e.offsetParent && Array.from(e.childNodes).some((n) => n.nodeType === 3 && n.data.trim())).map((e) => {
		const under = ground(e), a = light(rgb(getComputedStyle(e).color, under)), b = light(under);
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		return ratio < 4.5 ? ratio.toFixed(2) + " " + e.className + ": " + e.textContent.slice(0, 40) : "";
	}).filter((text) => text);
})()`
