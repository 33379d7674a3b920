package console_test

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/console"
)

// BenchmarkList measures a page of 10,000 leases, from the request to the last byte.
//
//	go test -C console -run='^$' -bench=.
func BenchmarkList(b *testing.B) {
	w := newFixture(b, console.Options{Refresh: time.Hour})
	for i := range 10_000 {
		w.hold(fmt.Sprintf("jobs/%05d", i), &leasing.AcquireOptions{TTL: time.Hour})
	}
	for _, page := range []struct{ what, path string }{{"all", ""}, {"filter", "?q=0123"}, {"by time left", "?sort=left"}, {"no match", "?q=x"}} {
		b.Run(page.what, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = len(w.page(page.path))
			}
			b.ReportMetric(float64(size), "B/page")
		})
	}
}

// BenchmarkViewers measures a page of 10,000 leases with 0 and with 200 viewers. A lease of 1 s in the same process
// must not be lost.
//
//	go test -C console -run='^$' -bench=Viewers -benchtime=500x
func BenchmarkViewers(b *testing.B) {
	for _, viewers := range []int{0, 200} {
		b.Run(fmt.Sprint(viewers), func(b *testing.B) {
			w := newFixture(b, console.Options{})
			for i := range 10_000 {
				w.hold(fmt.Sprintf("jobs/%05d", i), &leasing.AcquireOptions{TTL: time.Hour})
			}
			lease := w.hold("jobs/short", &leasing.AcquireOptions{TTL: time.Second})
			for range viewers {
				conn := w.send("GET /leases/live/leases HTTP/1.1", "Host: localhost")
				go func() { _, _ = io.Copy(io.Discard, conn) }()
			}
			w.page("")
			var took []time.Duration
			for b.Loop() {
				time.Sleep(20 * time.Millisecond)
				began := time.Now()
				w.page("")
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
			if err := lease.Err(); err != nil {
				b.Errorf("with %d viewers: %v", viewers, err)
			}
		})
	}
}
