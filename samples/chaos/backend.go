package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

// backend is where the leases are.
type backend struct {
	open func(context.Context) (leasing.Provider, error)
	// disturb is what befalls the backend itself; nil for nothing.
	disturb func(context.Context, func(torture.Disturbance)) error
	// clear removes what the run has left.
	clear func() error
	// where is for worker processes, which open it with open; nil if they can't.
	where *where
}

// where tells another process where the leases are. It goes through the process's
// environment: a URL may hold a password.
type where struct {
	Place *place.Place `json:",omitempty"`
	URL   string       `json:",omitempty"`
	Nodes []string     `json:",omitempty"` // Redlock's
}

func (w where) open(ctx context.Context) (leasing.Provider, error) {
	switch {
	case w.Place != nil:
		return w.Place.Provider(ctx)
	case w.Nodes != nil:
		return openRedlock(ctx, w.Nodes)
	}
	return place.Open(ctx, w.URL)
}

// on makes the backend of a place.
func (w where) on(disturb func(context.Context, func(torture.Disturbance)) error, clear func() error) *backend {
	return &backend{open: w.open, disturb: disturb, clear: clear, where: &w}
}

// workerVariable holds a worker process's where.
const workerVariable = "LEASING_CHAOS_WHERE"

// openFromEnvironment is what worker processes do.
func openFromEnvironment(ctx context.Context) (leasing.Provider, error) {
	var w where
	if err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &w); err != nil {
		return nil, errors.New("a worker process is not told where the leases are")
	}
	return w.open(ctx)
}

// process makes the command of a worker process: this program once more.
func (b *backend) process() (func() *exec.Cmd, error) {
	if b.where == nil {
		return nil, errors.New("leases in memory can't be reached by other processes")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(b.where)
	if err != nil {
		return nil, err
	}
	return func() *exec.Cmd {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
		return cmd
	}, nil
}

// setUp prepares the backend that is asked for.
func setUp(ctx context.Context, provider string) (*backend, error) {
	switch {
	case provider == "memory":
		return &backend{open: torture.Share(memlease.New(memlease.Options{})), clear: func() error { return nil }}, nil
	case provider == "redlock":
		return ownRedlock(ctx)
	case provider == "sqlite":
		return inPlace(ctx, "")
	case strings.HasPrefix(provider, "sqlite://"), strings.HasPrefix(provider, "postgres"):
		return inPlace(ctx, provider)
	}
	if !strings.Contains(provider, "://") {
		return nil, fmt.Errorf("-provider is memory, sqlite, redlock, or a URL that begins with one of %s", place.Schemes())
	}
	// Names are this run's own, and the provider forgets them by itself.
	return where{URL: provider}.on(nil, func() error { return nil }), nil
}

// inPlace makes tables of the run's own, and removes them after it.
func inPlace(ctx context.Context, url string) (*backend, error) {
	p, clear, err := place.SetUp(ctx, "chaos", url)
	if err != nil {
		return nil, err
	}
	return where{Place: &p}.on(nil, clear), nil
}
