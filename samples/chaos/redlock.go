package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos/torture"
)

const (
	nodeCount = 3
	// longestTTL is for how long a server that comes back empty casts no vote.
	longestTTL = 4 * time.Second
	ready      = 20 * time.Second // how long a server may take to start
)

// node is one Redis server of our own. It keeps nothing on disk: each start is an
// empty one.
type node struct {
	address string
	process *servertest.Process
}

// nodes are Redlock's servers.
type nodes [nodeCount]node

// ownRedlock starts three servers for Redlock, and kills one after the other while
// the workers work. Each comes back empty.
func ownRedlock(ctx context.Context) (_ *backend, err error) {
	var all nodes
	defer func() {
		if err != nil {
			all.stop()
		}
	}()
	var addresses []string
	for i := range all {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0") // finds a free port
		if err != nil {
			return nil, err
		}
		all[i].address = listener.Addr().String()
		if err := errors.Join(listener.Close(), all[i].start(ctx)); err != nil {
			return nil, err
		}
		addresses = append(addresses, all[i].address)
	}
	b, err := atURL(ctx, fmt.Sprintf("redis://%s/0?mode=redlock&max_ttl=%v", strings.Join(addresses, ","), longestTTL))
	if err != nil {
		return nil, err
	}
	clear := b.clear
	b.Disturb, b.Votes = all.killInTurn, true
	b.clear = func() error {
		all.stop()
		return clear()
	}
	return b, nil
}

// stop kills the servers that have started.
func (all *nodes) stop() {
	for _, n := range all {
		if n.process != nil {
			n.process.Kill()
		}
	}
}

// killInTurn kills a server, starts it again, empty, and gives it the time that it
// has to stay out before the next is killed: two at a time are more than three can
// do without.
func (all *nodes) killInTurn(ctx context.Context, report func(torture.Disturbance)) error {
	for i := 0; wait(ctx, time.Second); i = (i + 1) % nodeCount {
		report(torture.Disturbance{Kind: fmt.Sprintf("node %d killed", i+1), For: time.Second})
		all[i].process.Kill()
		wait(ctx, time.Second)
		if err := all[i].start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		report(torture.Disturbance{Kind: fmt.Sprintf("node %d back, empty", i+1)})
		wait(ctx, longestTTL+time.Second)
	}
	return nil
}

// wait waits, and says whether ctx still lives.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// start starts the server and waits until it takes connections.
func (n *node) start(ctx context.Context) error {
	host, port, _ := net.SplitHostPort(n.address) // a listener's
	process, err := servertest.StartProcess(exec.Command(cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server"),
		"--port", port, "--bind", host, "--save", "", "--appendonly", "no", "--dir", os.TempDir()))
	if err != nil {
		return fmt.Errorf("redlock needs redis-server, on PATH or in REDIS_SERVER: %w", err)
	}
	n.process = process
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	for {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", n.address)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-process.Done():
			return fmt.Errorf("the Redis server on %s has ended: %w", n.address, process.Wait(ctx))
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			process.Kill()
			return fmt.Errorf("the Redis server on %s did not start: %w", n.address, err)
		}
	}
}
