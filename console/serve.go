package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/distributedleasing/leasing"
)

// Serve serves a console on a listener until ctx ends, and then returns nil. It closes the listener, even if
// it fails. Without Options.Access the listener must be on a loopback address or a Unix socket; otherwise
// Serve returns a *leasing.InvalidError. For TLS pass a listener of [crypto/tls.NewListener].
func Serve(ctx context.Context, listener net.Listener, manager *leasing.Manager, options Options) error {
	defer func() { _ = listener.Close() }() // the server has closed it too
	if options.Access == nil && !isLocal(listener.Addr()) {
		return &leasing.InvalidError{Field: "listener", Value: listener.Addr(), Want: "a loopback address or a Unix socket, since users need not sign in: set Options.Access for any other"}
	}
	c, err := New(manager, options)
	if err != nil {
		return err
	}
	defer c.Close()
	server := &http.Server{
		Handler:           c,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	server.RegisterOnShutdown(c.Close)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if server.Shutdown(limited) != nil {
		_ = server.Close() // the remaining requests have had time to finish
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func isLocal(address net.Addr) bool {
	switch address := address.(type) {
	case *net.TCPAddr:
		return address.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
