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

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/netfault"
	"github.com/distributedleasing/leasing/chaos/torture"
	redislease "github.com/distributedleasing/leasing/providers/redis"
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
	port    int
	process *netfault.Process
}

// nodes are Redlock's servers.
type nodes []*node

// ownRedlock starts three servers for Redlock, and kills one after the other while
// the workers work. Each comes back empty.
func ownRedlock(ctx context.Context) (*backend, error) {
	var all nodes
	for range nodeCount {
		n := new(node)
		all = append(all, n)
		if err := n.start(ctx); err != nil {
			return nil, errors.Join(err, all.stop())
		}
	}
	first, err := redislease.Open(ctx, redlockOptions(all.addresses()))
	if err != nil {
		return nil, errors.Join(err, all.stop())
	}
	err = first.Bootstrap(ctx) // once: the servers are new
	if err = errors.Join(err, first.Close()); err != nil {
		return nil, errors.Join(err, all.stop())
	}
	return where{Nodes: all.addresses()}.on(all.killInTurn, all.stop), nil
}

func openRedlock(ctx context.Context, addresses []string) (leasing.Provider, error) {
	return redislease.Open(ctx, redlockOptions(addresses))
}

func redlockOptions(addresses []string) redislease.Options {
	return redislease.Options{
		URL: "redis://" + strings.Join(addresses, ",") + "/0?mode=redlock", MaxTTL: longestTTL,
	}
}

func (all nodes) addresses() (addresses []string) {
	for _, n := range all {
		addresses = append(addresses, n.address())
	}
	return addresses
}

// killInTurn kills a server, starts it again, empty, and gives it the time that it
// has to stay out before the next is killed: two at a time are more than three can
// do without.
func (all nodes) killInTurn(ctx context.Context, report func(torture.Disturbance)) error {
	for i := 0; ; i++ {
		n := all[i%len(all)]
		if !rest(ctx, time.Second) {
			return nil
		}
		report(torture.Disturbance{Kind: fmt.Sprintf("node %d killed", i%len(all)+1), For: time.Second})
		n.process.Kill()
		rest(ctx, time.Second)
		if err := n.start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		report(torture.Disturbance{Kind: fmt.Sprintf("node %d back, empty", i%len(all)+1)})
		if !rest(ctx, longestTTL+time.Second) {
			return nil
		}
	}
}

// rest waits, and says whether ctx still lives.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (all nodes) stop() (err error) {
	for _, n := range all {
		if n.process != nil {
			err = errors.Join(err, n.process.Close())
		}
	}
	return err
}

func (n *node) address() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }

// start starts the server, on the port that it had before if it had one.
func (n *node) start(ctx context.Context) error {
	if n.port == 0 {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		n.port = port
	}
	program := cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server")
	process, err := netfault.StartProcess(exec.Command(program,
		"--port", fmt.Sprint(n.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", os.TempDir()))
	if err != nil {
		return fmt.Errorf("redlock needs redis-server, on PATH or in REDIS_SERVER: %w", err)
	}
	n.process = process
	return n.await(ctx)
}

// await waits until the server takes connections.
func (n *node) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	for {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", n.address())
		if err == nil {
			return connection.Close()
		}
		select {
		case <-n.process.Done():
			return fmt.Errorf("the Redis server on %s has ended: %w", n.address(), n.process.Wait(ctx))
		default:
		}
		if !rest(ctx, 5*time.Millisecond) {
			return fmt.Errorf("the Redis server on %s did not start: %w", n.address(), err)
		}
	}
}

func freePort(ctx context.Context) (int, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
