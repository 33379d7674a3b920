// The first program of a user of console. It serves a page that shows who holds a lease.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/console"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func main() {
	ctx := context.Background()
	provider := memlease.New(memlease.Options{})
	manager, err := leasing.NewManager(provider, leasing.Options{Owner: "worker-1"})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	err = manager.Do(ctx, "jobs/daily-maintenance", func(ctx context.Context, _ *leasing.Lease) error {
		ctx, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- console.Serve(ctx, listener, manager, console.Options{Provider: provider}) }()
		err := look(ctx, "http://"+listener.Addr().String()+"/")
		stop()
		return errors.Join(err, <-done)
	})
	if err := errors.Join(err, manager.Close(ctx), provider.Close()); err != nil {
		log.Fatal(err)
	}
}

// look fails unless the page shows the holder.
func look(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	page, err := io.ReadAll(reply.Body)
	if err = errors.Join(err, reply.Body.Close()); err == nil && !strings.Contains(string(page), "worker-1") {
		err = errors.New("the page does not show the holder")
	}
	return err
}
