package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// runLocker acquires a name and prints the time. With Hold it does so once, and holds the name
// until the process is killed; otherwise it does so in a loop. It returns only if it fails.
func (t task) runLocker(ctx context.Context) error {
	b, err := newBench(t)
	if err != nil {
		return err
	}
	client, err := b.open(ctx, nil)
	if err != nil {
		return err
	}
	for {
		lock, err := client.Acquire(ctx, t.Name)
		if err != nil {
			return err
		}
		fmt.Println(time.Now().UnixNano())
		if t.Hold {
			lock.Keep()
			<-ctx.Done()
			return ctx.Err()
		}
		if err := lock.Release(ctx); err != nil {
			return err
		}
	}
}

// process is a process that acquires a name.
type process struct {
	pid  int
	had  <-chan string // the times at which it got the name, in nanoseconds since 1970; closed at the end of the process
	kill func()        // kills it with SIGKILL; returns when the process has ended
}

// start starts a process that acquires a name. Its leases have the TTL of b. The process also ends
// with ctx.
func (b *bench) start(ctx context.Context, name string, hold bool) (*process, error) {
	task := b.task
	task.Name, task.Hold, task.Size.TTL = name, hold, b.ttl
	cmd, err := task.command(ctx)
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	had := make(chan string, 1000)
	go func() {
		defer close(had)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			select {
			case had <- lines.Text():
			case <-ctx.Done():
			}
		}
	}()
	return &process{cmd.Process.Pid, had, sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the error only says that the process was killed
	})}, nil
}

// handoffProcesses measures the time from a release until a waiting process has the lock.
func handoffProcesses(ctx context.Context, b *bench) (metrics, error) {
	client, err := b.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	other, err := b.start(ctx, b.name("name"), false)
	if err != nil {
		return nil, err
	}
	defer other.kill()
	if _, ok := <-other.had; !ok {
		return nil, errors.New("the other process never had the name")
	}
	var handoffs []time.Duration
	for end := time.Now().Add(b.Size.Handoffs); time.Now().Before(end); {
		lock, err := client.Acquire(ctx, b.name("name"))
		if err != nil {
			return nil, err
		}
		if err := pause(ctx, 20*time.Millisecond+rand.N(100*time.Millisecond)); err != nil {
			return nil, err
		}
		for len(other.had) > 0 {
			<-other.had
		}
		released := time.Now()
		if err := lock.Release(ctx); err != nil {
			return nil, err
		}
		at, err := strconv.ParseInt(<-other.had, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the other process has ended: %w", err)
		}
		handoffs = append(handoffs, time.Unix(0, at).Sub(released))
	}
	return metrics{"p50": median(handoffs) / float64(time.Millisecond)}, nil
}

// idleProcesses measures the cost of many waiting processes, first while nothing else happens, and
// then while another client is busy with other names.
func idleProcesses(ctx context.Context, b *bench) (metrics, error) {
	client, err := b.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	lock, err := client.Acquire(ctx, b.name("name"))
	if err != nil {
		return nil, err
	}
	lock.Keep()
	ctx, stop := context.WithCancel(ctx)
	var pids []int
	for range b.Size.Processes {
		other, err := b.start(ctx, b.name("name"), false)
		if err != nil {
			stop()
			return nil, err
		}
		defer other.kill()
		pids = append(pids, other.pid)
	}
	defer stop() // kills all of them at once
	used := func() (all time.Duration) {
		for _, pid := range pids {
			_, cpu, _ := lockers.ProcessTimes(pid)
			all += cpu
		}
		return all
	}
	over := func(do func(ctx context.Context) error) (percent float64, err error) {
		window, cancel := context.WithTimeout(ctx, b.Size.IdleWindow)
		defer cancel()
		before := used()
		for window.Err() == nil && err == nil {
			err = do(window)
		}
		return 100 * (used() - before).Seconds() / b.Size.IdleWindow.Seconds(), err
	}
	if err := pause(ctx, 20*b.Size.Settle); err != nil { // until they all wait
		return nil, err
	}
	idle, err := over(func(window context.Context) error { <-window.Done(); return nil })
	if err != nil {
		return nil, err
	}
	if b.peer.WaitOnly { // all names share one lock
		return metrics{"idle": idle}, lock.Release(ctx)
	}
	n := 0
	busy, err := over(func(context.Context) error {
		n++
		return cycle(ctx, client, b.name("other", n%namesPerGoroutine))
	})
	if err != nil {
		return nil, err
	}
	return metrics{"idle": idle, "busy": busy}, lock.Release(ctx)
}
