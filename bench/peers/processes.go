package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// loop is the life of a process that takes a name, says when, and begins again. It only returns if it
// fails.
func (t task) loop(ctx context.Context) error {
	b, err := newBench(t)
	if err != nil {
		return err
	}
	client, err := b.open(ctx, nil)
	if err != nil {
		return err
	}
	for {
		lock, err := client.Acquire(ctx, t.Loop)
		if err != nil {
			return err
		}
		fmt.Println(time.Now().UnixNano())
		if err := lock.Release(ctx); err != nil {
			return err
		}
	}
}

// startLoop starts such a process. It ends with ctx; wait returns then.
func (b *bench) startLoop(ctx context.Context, name string) (lines <-chan string, pid int, wait func(), err error) {
	task := b.task
	task.Loop = name
	cmd, err := task.command(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, nil, err
	}
	all := make(chan string, 1000)
	go func() {
		defer close(all)
		text := bufio.NewReader(output)
		for {
			line, err := text.ReadString('\n')
			if err != nil {
				return
			}
			all <- line
		}
	}()
	return all, cmd.Process.Pid, func() { _ = cmd.Wait() }, nil
}

// handoffProcesses measures the time from a release to the lock of another process that waits.
func handoffProcesses(ctx context.Context, b *bench) (metrics, error) {
	client, err := b.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	lines, _, wait, err := b.startLoop(running, b.name("name"))
	if err != nil {
		stop()
		return nil, err
	}
	defer wait()
	defer stop()
	if _, ok := <-lines; !ok {
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
		for len(lines) > 0 {
			<-lines
		}
		released := time.Now()
		if err := lock.Release(ctx); err != nil {
			return nil, err
		}
		at, err := strconv.ParseInt(strings.TrimSpace(<-lines), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the other process has ended: %w", err)
		}
		handoffs = append(handoffs, time.Unix(0, at).Sub(released))
	}
	return metrics{"p50": median(handoffs) / float64(time.Millisecond)}, nil
}

// idleProcesses measures what it costs that many processes wait, first while nothing else happens, and
// then while one is busy with other names.
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
	running, stop := context.WithCancel(ctx)
	var pids []int
	for range b.Size.Processes {
		lines, pid, wait, err := b.startLoop(running, b.name("name"))
		if err != nil {
			stop()
			return nil, err
		}
		defer wait()
		go func() {
			for range lines { // to its end
			}
		}()
		pids = append(pids, pid)
	}
	defer stop()
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
	if b.peer.WaitOnly { // all names are one
		return metrics{"idle": idle}, lock.Release(ctx)
	}
	n := 0
	busy, err := over(func(context.Context) error {
		n++
		return cycle(ctx, client, b.name("other", n%namesEach))
	})
	if err != nil {
		return nil, err
	}
	return metrics{"idle": idle, "busy": busy}, lock.Release(ctx)
}
