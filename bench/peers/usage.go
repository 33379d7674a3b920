package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/bench/internal/meter"
)

// usage holds the resources used up to a moment, or, by subtraction, between two moments.
type usage struct {
	at                   time.Time
	elapsed              time.Duration
	clientCPU, serverCPU time.Duration
	log                  int64
	commands, mallocs    int64
}

func (b *bench) usage(ctx context.Context) (usage, error) {
	server, err := b.store.CPU(ctx)
	log, logErr := b.store.Log(ctx)
	return usage{at: time.Now(), clientCPU: meter.CPU(), serverCPU: server, log: log, commands: b.counter.Commands(), mallocs: mallocs()}, errors.Join(err, logErr)
}

// over returns the usage while do runs.
func (b *bench) over(ctx context.Context, do func() error) (usage, error) {
	from, err := b.usage(ctx)
	if err != nil {
		return usage{}, err
	}
	if err := do(); err != nil {
		return usage{}, err
	}
	to, err := b.usage(ctx)
	return to.since(from), err
}

func (u usage) since(from usage) usage {
	return usage{
		at:        u.at,
		elapsed:   u.at.Sub(from.at),
		clientCPU: u.clientCPU - from.clientCPU,
		serverCPU: u.serverCPU - from.serverCPU,
		commands:  u.commands - from.commands,
		mallocs:   u.mallocs - from.mallocs,
		log:       u.log - from.log,
	}
}

// perMinute converts the usage to rates: CPU seconds per minute, commands per second.
func (u usage) perMinute() metrics {
	return metrics{
		"commands":  float64(u.commands) / u.elapsed.Seconds(),
		"clientCPU": u.clientCPU.Seconds() / u.elapsed.Minutes(),
		"serverCPU": u.serverCPU.Seconds() / u.elapsed.Minutes(),
		"log":       float64(u.log) / 1e6 / u.elapsed.Minutes(),
	}
}

// mallocs returns the number of objects that were ever allocated.
func mallocs() int64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.Mallocs)
}

// rss returns the resident memory of this process in bytes. It is the second field of
// /proc/self/statm, in pages. rss returns 0 on systems without this file.
func rss() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.Atoi(string(bytes.Fields(text)[1]))
	if err != nil {
		return 0
	}
	return float64(pages * os.Getpagesize())
}
