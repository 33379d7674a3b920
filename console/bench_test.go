package console_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/console"
)

// What a page of 10,000 leases costs, from the request to its last byte.
//
//	go test -C console -run='^$' -bench=.
func BenchmarkList(b *testing.B) {
	w := newWorld(b, console.Options{Refresh: time.Hour})
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
