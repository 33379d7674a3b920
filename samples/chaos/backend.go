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
	votes   bool // see torture.Options
	// clear removes what the run has left.
	clear func() error
	// place is for worker processes; nil if they can't reach the leases.
	place *place.Place
}

// setUp prepares the backend that is asked for.
func setUp(ctx context.Context, provider string) (*backend, error) {
	switch {
	case provider == "memory":
		return &backend{open: torture.Share(memlease.New(memlease.Options{})), clear: func() error { return nil }}, nil
	case provider == "redlock":
		return ownRedlock(ctx)
	case provider == "sqlite":
		return atURL(ctx, "")
	case !strings.Contains(provider, "://"):
		return nil, fmt.Errorf("-provider is memory, sqlite, redlock, or a URL that begins with one of %s", place.Schemes)
	}
	return atURL(ctx, provider)
}

// atURL makes a place of the run's own, and removes it after the run.
func atURL(ctx context.Context, url string) (*backend, error) {
	p, clear, err := place.SetUp(ctx, "chaos", url)
	if err != nil {
		return nil, err
	}
	return &backend{open: p.Provider, clear: clear, place: &p}, nil
}

// placeVariable holds a worker process's place, as JSON.
const placeVariable = "LEASING_CHAOS_PLACE"

// openFromEnvironment is what worker processes do.
func openFromEnvironment(ctx context.Context) (leasing.Provider, error) {
	var p place.Place
	if err := json.Unmarshal([]byte(os.Getenv(placeVariable)), &p); err != nil {
		return nil, errors.New("a worker process is not told where the leases are")
	}
	return p.Provider(ctx)
}

// process makes the command of a worker process: this program once more.
func (b *backend) process() (func() *exec.Cmd, error) {
	if b.place == nil {
		return nil, errors.New("leases in memory can't be reached by other processes")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(b.place)
	if err != nil {
		return nil, err
	}
	return func() *exec.Cmd {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), placeVariable+"="+string(text))
		return cmd
	}, nil
}
