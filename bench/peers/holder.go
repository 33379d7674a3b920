package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// heldLine is what a holder says when it has its name.
const heldLine = "held\n"

// hold is a holder's life. It only returns if it fails.
func hold(ctx context.Context, j job, name string) error {
	s, err := newSite(j)
	if err != nil {
		return err
	}
	client, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	lock, err := client.Acquire(ctx, name)
	if err != nil {
		return err
	}
	lock.Keep()
	if _, err := io.WriteString(os.Stdout, heldLine); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// victim is a process that holds a name.
type victim struct {
	cmd  *exec.Cmd
	once sync.Once
}

// startHolder returns when the process has the name.
func startHolder(ctx context.Context, j job, name string) (*victim, error) {
	cmd, err := child(ctx, task{Job: j, Hold: name})
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
	v := &victim{cmd: cmd}
	line := make([]byte, len(heldLine))
	if _, err := io.ReadFull(output, line); err != nil {
		v.kill()
		return nil, fmt.Errorf("a holder did not get its name: %w", err)
	}
	return v, nil
}

// kill ends the process the hard way (SIGKILL), and returns when it is gone.
func (v *victim) kill() {
	v.once.Do(func() {
		_ = v.cmd.Process.Kill()
		_ = v.cmd.Wait() // says that it was killed
	})
}
