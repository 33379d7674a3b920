package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// childVariable holds the task of a child process.
const childVariable = "LEASING_PEERS_CHILD"

// task is the job of a child process: a measurement or, if Name is set, a call of runLocker.
type task struct {
	Backend  string
	Workload string
	Peer     string
	URL      string // of the peer's servers
	Prefix   string // of the names that the task uses
	Size     size
	Name     string
	Hold     bool // hold the name, rather than acquire it repeatedly
}

// taskLimit is much longer than any measurement takes, even if no waiter notices that
// a killed holder's lock has ended.
const taskLimit = 10 * time.Minute

// outcome is the result that a child prints at its end.
type outcome struct {
	Metrics metrics
	Error   string
}

// command returns a command that runs this program as a child process with the task. Its standard
// input is a pipe without data, so that the child ends with its parent.
func (t task) command(ctx context.Context) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe()
	return cmd, err
}

// runInProcess runs a task in a process of its own.
func runInProcess(ctx context.Context, t task) (metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, taskLimit+10*time.Second)
	defer cancel()
	t.Prefix = "bench-peers:" + rand.Text()
	cmd, err := t.command(ctx)
	if err != nil {
		return nil, err
	}
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the child process: %w", err)
	}
	var o outcome
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("the child process: %w", err)
	}
	if o.Error != "" {
		return nil, errors.New(o.Error)
	}
	return o.Metrics, nil
}

// childMain is the main function of a child process.
func childMain(text string) int {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		return 2
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the parent has ended
	}()
	ctx, cancel := context.WithTimeout(context.Background(), taskLimit)
	defer cancel()
	if t.Name != "" {
		fmt.Fprintf(os.Stderr, "peers: %s: %v\n", t.Name, t.runLocker(ctx))
		return 1
	}
	m, err := t.run(ctx)
	o := outcome{Metrics: m}
	if err != nil { // sent as one line of at most 300 bytes
		o.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
		o.Error = o.Error[:min(len(o.Error), 300)]
	}
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		return 1
	}
	return 0
}

// run makes a measurement in this process.
func (t task) run(ctx context.Context) (m metrics, err error) {
	at := slices.IndexFunc(workloads, func(w workload) bool { return w.name == t.Workload })
	if at < 0 {
		return nil, fmt.Errorf("there is no workload %q", t.Workload)
	}
	b, err := newBench(t)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, b.close(ctx)) }()
	m, err = workloads[at].run(ctx, b)
	if b.counter.Commands() == 0 { // only commands to Redis are counted
		delete(m, "commands")
	}
	for _, key := range []string{"serverCPU", "memory", "log"} {
		if m[key] == 0 { // the figure is not known
			delete(m, key)
		}
	}
	for key, value := range m {
		if math.IsNaN(value) || math.IsInf(value, 0) { // JSON cannot represent these values
			delete(m, key)
		}
	}
	return m, err
}
