// Command worker is a process that competes with others for a lease, works while
// it is the holder, and takes over when another holder stops. It is one program for every
// backend: a URL or a file says which.
//
//	go run ./worker -provider 'sqlite://worker.db?create=true'
//	go run ./worker -provider 'redis://127.0.0.1:6379'
//	go run ./worker -config worker/configs/blob.json
//
// Start it several times, on one machine or on many. One of them works, item by
// item, and renews its lease; the others print its holder: owner, fencing token, metadata, and, if
// the backend knows, how long the lease still lasts. Stop the holder with Ctrl-C, and it gives the
// lease up: another takes over at once. Kill it, and another takes over when the lease has run out.
//
// With -measure it prints how long requests take from this host. With -metrics Prometheus can read
// its metrics.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/app"
)

// urlVariable is read if no flag names the backend: a command line can be read by everyone on the
// machine, and the URL may hold a password.
const urlVariable = "LEASING_PROVIDER"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := run(ctx, os.Args[1:], os.LookupEnv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// settings are those of the command line, and of the file that it names.
type settings struct {
	config
	url     string // if no file names the provider
	pace    time.Duration
	measure int
	metrics string // address; "" for none
	// bootstrap lets the servers of a Redlock vote.
	bootstrap bool
}

func parse(args []string, env lookup) (s settings, err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	pid := strconv.Itoa(os.Getpid())
	s.Metadata = map[string]string{"host": host, "pid": pid}
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.StringVar(&s.url, "provider", "", "URL of the backend: sqlite://file, postgres://..., redis://..., ... (default: the variable "+urlVariable+")")
	file := flags.String("config", "", "JSON file that says the backend, and all the rest: see worker/configs")
	flags.StringVar(&s.Name, "name", "sample/worker", "of the lease, rather than the file's")
	flags.StringVar(&s.Owner, "owner", host+"-"+pid, "who this is, for people to read")
	flags.DurationVar((*time.Duration)(&s.TTL), "ttl", 30*time.Second, "how long the lease lasts without renewal, rather than the file's")
	flags.DurationVar(&s.pace, "pace", time.Second, "how long an item takes, and how often those who wait look")
	flags.IntVar(&s.measure, "measure", 0, "acquire, renew and release so many times, and print how long that takes")
	flags.StringVar(&s.metrics, "metrics", "", "address at which Prometheus finds this process's metrics, such as 127.0.0.1:9464")
	flags.BoolVar(&s.bootstrap, "bootstrap", false, "let the new servers of a Redlock vote: once, when no lease can be alive on them")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if *file != "" {
		if err := s.read(*file, env); err != nil {
			return s, fmt.Errorf("%s: %w", *file, err)
		}
		if err := flags.Parse(args); err != nil { // once more, because a flag overrides the file
			return s, err
		}
	} else if s.url == "" {
		s.url, _ = env(urlVariable)
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("what is %q? All settings are flags", flags.Arg(0))
	case (s.url == "") == (*file == ""):
		return s, errors.New("which backend? Give -provider with a URL, or -config with a file, or set " + urlVariable)
	case s.pace <= 0:
		return s, fmt.Errorf("-pace %v: want more than 0", s.pace)
	}
	return s, nil
}

// run runs the worker as the command line configures it, until ctx ends.
func run(ctx context.Context, args []string, env lookup, out io.Writer) (err error) {
	s, err := parse(args, env)
	if err != nil {
		return err
	}
	provider, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	if servers, ok := provider.(interface{ Bootstrap(context.Context) error }); ok && s.bootstrap {
		if err := servers.Bootstrap(ctx); err != nil {
			return err
		}
	}
	// RaiseToMinTTL lets one TTL work for every backend: a backend that only grants longer leases
	// uses its shortest TTL.
	options := leasing.Options{Owner: s.Owner, TTL: time.Duration(s.TTL), RaiseToMinTTL: true, NoAutoRenew: s.measure > 0}
	if s.metrics != "" {
		meters, stop, err := serveMetrics(s.metrics, out)
		if err != nil {
			return err
		}
		defer stop()
		options.MeterProvider = meters
	}
	manager, err := leasing.NewManager(provider, options)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, manager.Close(closing))
	}()
	if s.measure > 0 {
		return measure(ctx, manager, s.Name, s.measure, out)
	}
	return (&worker{settings: s, manager: manager, out: out}).compete(ctx)
}

// open opens the provider that the URL or the file names.
func (s settings) open(ctx context.Context) (leasing.Provider, error) {
	if s.url != "" {
		return app.Open(ctx, s.url)
	}
	provider, err := backends[s.Provider](ctx, s.Backends[s.Provider])
	if err != nil {
		return nil, fmt.Errorf("options of %s: %w", s.Provider, err)
	}
	return provider, nil
}
