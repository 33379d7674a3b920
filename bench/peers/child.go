package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// childVariable holds the task of a child process.
const childVariable = "LEASING_PEERS_CHILD"

// task is what a child does: a job, or, if Hold is set, to hold that name until
// it is killed.
type task struct {
	Job  job
	Hold string
}

// outcome is what a child says at its end.
type outcome struct {
	Metrics metrics `json:"metrics,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// failure is an outcome with an error, in one line that is not too long.
func failure(err error) outcome {
	text := []rune(strings.ReplaceAll(err.Error(), "\n", "; "))
	return outcome{Error: string(text[:min(len(text), 300)])}
}

// child is this program once more. Its standard input is a pipe that nobody
// writes to: it ends with its parent.
func child(ctx context.Context, t task) (*exec.Cmd, error) {
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

// childMain is the main function of a child process.
func childMain(text string) int {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		return 2
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // an orphan
	}()
	ctx, cancel := context.WithTimeout(context.Background(), t.Job.limit())
	defer cancel()
	if t.Hold != "" {
		fmt.Fprintln(os.Stderr, "peers: hold:", hold(ctx, t.Job, t.Hold))
		return 1
	}
	m, err := t.Job.run(ctx)
	o := outcome{Metrics: m.finite()}
	if err != nil {
		o = failure(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		return 1
	}
	return 0
}

// run does a job in this process.
func (j job) run(ctx context.Context) (_ metrics, err error) {
	w, err := workloadByName(j.Workload)
	if err != nil {
		return nil, err
	}
	s, err := newSite(j)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if s.peer.Name == publish.Name {
		return wakeup(ctx, s)
	}
	return w.run(ctx, s)
}

// runApart does a job in a process of its own.
func (j job) runApart(ctx context.Context) outcome {
	ctx, cancel := context.WithTimeout(ctx, j.limit()+10*time.Second)
	defer cancel()
	cmd, err := child(ctx, task{Job: j})
	if err != nil {
		return failure(err)
	}
	text, err := cmd.Output()
	var o outcome
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return failure(fmt.Errorf("the child process: %w", err))
	}
	return o
}

// limit is when a job is given up: much later than it takes, even if nobody
// notices that a killed holder's lock has ended.
func (j job) limit() time.Duration {
	return 5*time.Minute + 2*j.Variant.For + time.Duration(j.Variant.Samples)*time.Second
}
