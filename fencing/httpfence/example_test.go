package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/httpfence"
	"github.com/distributedleasing/leasing/fencing/redisfence"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// A service protects its reports; its clients hold a lease. One client was paused for so long that
// an operator broke its lease.
func ExampleHandler() {
	// The service.
	reports := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	server := httptest.NewServer(httpfence.Handler(reports, httpfence.HandlerOptions{
		Lease: func(*http.Request) string { return "reports/daily" },
	}))
	defer server.Close()

	// The clients, which take turns holding the lease.
	ctx := context.Background()
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = manager.Close(ctx) }()
	client := &http.Client{Transport: &httpfence.Transport{}}
	defer client.CloseIdleConnections()

	upload := func(ctx context.Context, lease *leasing.Lease) error {
		request, err := http.NewRequestWithContext(httpfence.WithLease(ctx, lease), http.MethodPut, server.URL, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if err := httpfence.CheckResponse(response); err != nil {
			return err
		}
		fmt.Println("uploaded:", response.Status)
		return nil
	}

	paused, err := manager.Acquire(ctx, "reports/daily")
	if err != nil {
		panic(err)
	}
	if _, err := manager.Break(ctx, "reports/daily", leasing.BreakOptions{Immediate: true}); err != nil {
		panic(err)
	}
	err = manager.Do(ctx, "reports/daily", upload) // under the lease's context
	fmt.Println("the present holder:", err)

	// The paused client wakes up. Its lease's context would stop it here, but
	// its request is already under way.
	err = upload(context.Background(), paused)
	fmt.Println("the former holder is refused:", errors.Is(err, leasing.ErrStale))
	_ = paused.Release(ctx)
	// Output:
	// uploaded: 204 No Content
	// the present holder: <nil>
	// the former holder is refused: true
}

// A stored check outlives the process, and serves several processes.
func ExampleCheckFirst() {
	var redis *redisfence.Fence // see redisfence.New
	handler := http.NewServeMux()
	handler.Handle("PUT /reports/daily", httpfence.Handler(http.NotFoundHandler(), httpfence.HandlerOptions{
		Fence:    fencing.CheckFirst(redis.Advance),
		Resource: func(*http.Request) string { return "fence:{reports}:daily" }, // a key of that Redis
	}))
}
