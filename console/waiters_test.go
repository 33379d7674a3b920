package console_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/console"
)

func TestOneNameShowsWhoWaits(t *testing.T) {
	w := newFixture(t, console.Options{Refresh: 100 * time.Millisecond})
	w.hold("jobs/report", nil)
	next, _ := w.events("lease?name=jobs%2Freport")
	ctx, stop := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for _, owner := range []string{"worker-3", "worker-2"} {
		other, err := leasing.NewManager(w.provider, leasing.Options{Owner: owner})
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Close(t.Context())) }()
		waiting.Go(func() { _, _ = other.Acquire(ctx, "jobs/report") })
		until(next, func(event string) bool { return strings.Contains(event, owner) })
	}
	event := until(next, func(event string) bool { return strings.Contains(event, "<h2>Waiters <b>2</b></h2>") })
	require.Regexp(t, `(?s)<td>1</td><td><bdi>worker-3<.*<td>2</td><td><bdi>worker-2<`, event)
	stop()
	waiting.Wait()
	until(next, func(event string) bool { return strings.Contains(event, "This name has no waiters.") })
}
