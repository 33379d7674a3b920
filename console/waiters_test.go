package console_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/console"
)

func TestOneNameShowsWhoWaits(t *testing.T) {
	w := newWorld(t, console.Options{Refresh: 100 * time.Millisecond})
	w.hold("jobs/report", nil)
	other, err := leasing.NewManager(w.provider, leasing.Options{Owner: "worker-2"})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = other.Acquire(ctx, "jobs/report", nil)
	}()
	next, _ := w.events("lease?name=jobs%2Freport")
	event := until(next, func(event string) bool { return strings.Contains(event, "worker-2") })
	require.Contains(t, event, "<h2>Waiters <b>1</b></h2>")
	stop()
	<-done
	until(next, func(event string) bool { return strings.Contains(event, "Nobody waits for this name.") })
	require.NoError(t, other.Close(t.Context()))
}
