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
	// Options has Open, Votes, and, but for leases in memory, which other processes can't
	// reach, Process.
	torture.Options
	// clear removes what the run has left.
	clear func() error
}

// setUp prepares the backend that is asked for.
func setUp(ctx context.Context, provider string) (*backend, error) {
	switch {
	case provider == "memory":
		return &backend{torture.Options{Open: torture.Share(memlease.New(memlease.Options{}))}, func() error { return nil }}, nil
	case provider != "sqlite" && !strings.Contains(provider, "://"):
		return nil, fmt.Errorf("-provider is memory, sqlite, or a URL that begins with %s", place.Schemes())
	}
	return atURL(ctx, provider)
}

// atURL makes a place of the run's own, and removes it after the run. A worker process
// is this program once more.
func atURL(ctx context.Context, url string) (*backend, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, clear, err := place.SetUp(ctx, "chaos", url)
	if err != nil {
		return nil, err
	}
	text, _ := json.Marshal(p) // strings can't fail
	return &backend{torture.Options{Open: p.Provider, Votes: strings.Contains(url, "mode=redlock"), Process: func() *exec.Cmd {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), placeVariable+"="+string(text))
		return cmd
	}}, clear}, nil
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
