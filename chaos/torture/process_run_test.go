//go:build unix

package torture

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/fencing"
)

// text takes what a process writes to its standard error.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// obedient is a script that repeats its orders on standard error, and ends when it is
// told to or left alone.
const obedient = `while read -r line; do echo "$line" >&2; case "$line" in *'"stop"'*) exit 0;; esac; done`

// spawned is a worker process that runs a shell script, and what it said.
func spawned(t *testing.T, script string, options Options) (*process, *text) {
	t.Helper()
	said := new(text)
	options.Process = func() *exec.Cmd {
		cmd := exec.Command("sh", "-c", `echo '{"ready":true}'; `+script)
		cmd.Stderr = said
		return cmd
	}
	if options.Patience == 0 {
		options.Patience = time.Minute
	}
	r := &run{options: options, clock: startClock(), book: newBook(), register: newRegister(options.Fence)}
	r.started.run, r.started.names = 77, []string{"a", "b"}
	p, err := r.spawn(3)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, said
}

// What a worker process must know of its run it is told.
func TestWorkerProcessIsToldItsJob(t *testing.T) {
	p, said := spawned(t, obedient, Options{
		Seed: 9, TTL: 2 * time.Second, Patience: 3 * time.Second,
		Plan: chaos.TotalOutage(chaos.TotalOutageOptions{}), Manager: leasing.Options{DriftFactor: 0.25},
	})
	p.calm()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, p.run(ctx), "it is told to stop, and ends")
	for _, want := range []string{
		`"index":3`, `"run":77`, `"names":["a","b"]`, `"seed":9`, `"total-outage"`, `"ttl":2000000000`, `"patience":3000000000`, `"DriftFactor":0.25`,
		`"calm":true`, `"stop":true`,
	} {
		require.Contains(t, said.String(), want)
	}
	require.NotContains(t, said.String(), `"epoch":0`)
}

func TestKilledWorkerProcessIsNoFailure(t *testing.T) {
	p, _ := spawned(t, obedient, Options{})
	p.r.book.enter(entry{Key: "t", Hold: &Hold{Worker: 3, Name: "n", Claim: "c", Until: time.Hour}})
	p.kill()
	require.NoError(t, p.run(t.Context()))
	require.Equal(t, EndingKilled, p.r.book.history().Holds[0].Ending)
}

func TestWorkerProcessThatFailsSaysWhy(t *testing.T) {
	p, _ := spawned(t, `echo '{"error":"no luck"}'; exit 4`, Options{})
	err := p.run(t.Context())
	require.ErrorContains(t, err, "no luck")
	exit := (*exec.ExitError)(nil)
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 4, exit.ExitCode())
}

// One that is left alone ends; one that doesn't is killed.
func TestClosedWorkerProcessIsGone(t *testing.T) {
	for _, script := range []string{obedient, `exec sleep 600`} {
		p, _ := spawned(t, script, Options{})
		require.NoError(t, p.Close())
		<-p.ended
		require.NotNil(t, p.cmd.ProcessState)
	}
}

func TestStoppedWorkerProcessIsRecordedAndGoesOn(t *testing.T) {
	p, _ := spawned(t, obedient, Options{})
	p.r.halt(t.Context(), p, 20*time.Millisecond)
	h := p.r.book.history()
	require.Len(t, h.Stops, 1)
	require.Equal(t, 3, h.Stops[0].Worker)
	require.GreaterOrEqual(t, h.Stops[0].To, h.Stops[0].From+20*time.Millisecond)
	require.Len(t, h.Faults, 1)
	require.Equal(t, -1, h.Faults[0].Worker)
	require.Equal(t, h.Stops[0].From, h.Faults[0].At)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, p.run(ctx), "it hears that it is to stop")

	p.r.halt(t.Context(), p, time.Hour)
	require.Len(t, p.r.book.history().Stops, 1, "one that has ended can't be stopped")
}

// The resource's answer to a write is the worker's, and what the worker enters is
// the run's.
func TestWorkerProcessWritesToTheResource(t *testing.T) {
	over, stop := context.WithCancel(t.Context())
	stop()
	const ask = `echo '{"write":{"request":5,"name":"n","token":3}}'; read -r job; read -r answer; echo "$answer" >&2
`
	p, said := spawned(t, ask+`echo '{"fill":{"place":0,"write":{"worker":3,"name":"n","token":3}}}'
echo '{"entry":{"key":"o","operation":{"worker":3,"verb":"acquire","name":"n"}}}'`, Options{})
	<-p.ended
	require.NoError(t, p.run(over))
	require.Contains(t, said.String(), `{"request":5,"place":0,"accepted":true}`)
	require.Len(t, p.r.register.history(), 1)
	require.Len(t, p.r.book.history().Operations, 1)

	down := fencing.Fence(func(context.Context, string, int64, func(context.Context) error) error { return errors.New("down") })
	p, said = spawned(t, ask, Options{Fence: down})
	<-p.ended
	require.NoError(t, p.run(over))
	require.Contains(t, said.String(), `"accepted":false,"failed":true`)
	require.Empty(t, p.r.register.history())
}
