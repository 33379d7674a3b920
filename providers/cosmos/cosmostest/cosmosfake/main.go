// Command cosmosfake serves an account of package cosmostest on a loopback port, for
// samples, and for tests of other modules. It prints one line, the URL for
// cosmoslease.OpenURL, and serves until it gets an interrupt or SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cosmosfake:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("cosmosfake", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "the address to listen on")
	key := flags.String("key", "", "the account's key, in base64; default: one that is made up")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *key == "" {
		*key = cosmostest.NewKey()
	}
	account := cosmostest.New(cosmostest.Options{Key: *key})
	account.AddContainer("app", "leases", "/id")
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, cosmostest.LeaseURL(listener.Addr().String(), *key, "app/leases"))
	return serve(ctx, listener, account)
}

func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
