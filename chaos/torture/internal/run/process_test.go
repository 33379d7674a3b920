package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
	"github.com/distributedleasing/leasing/fencing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// aRun returns the parts of a run that tests use.
func aRun(options Options) *stage {
	if options.Patience == 0 {
		options.Patience = time.Minute
	}
	return &stage{
		options: options, names: []string{"a", "b"}, clock: &clock{start: time.Now()}, recording: new(history.Recording), resource: newResource(options.Fence),
	}
}

// connected connects a worker to a run. j is the worker's job. It returns the worker's side, the
// run's side, and the run's end of the pipe.
func connected(t *testing.T, r *stage, j job) (remote, *process, io.ReadWriteCloser) {
	t.Helper()
	s, server := newProcess(r, j), rpc.NewServer()
	require.NoError(t, server.RegisterName("Run", s))
	here, there := net.Pipe()
	go server.ServeConn(there)
	client := remote{rpc.NewClient(here)}
	t.Cleanup(func() { s.endFaults(); s.stop(); _ = client.Close() })
	return client, s, there
}

func memory(context.Context) (leasing.Provider, error) { return memlease.New(memlease.Options{}), nil }

var aJob = job{Index: 3, Names: []string{"n"}, Options: portable{
	TTL: time.Second, Patience: time.Second, Intensity: 1, Seed: 5, Manager: leasing.Options{TTL: time.Second, Tuning: leasing.Tuning{RequestTimeout: time.Second}},
}}

// A worker process ends when the run stops the process, and when the run is gone.
func TestWorkerProcessEndsWithItsRun_memory(t *testing.T) {
	for what, end := range map[string]func(s *process, line io.ReadWriteCloser){
		"stopped":    func(s *process, _ io.ReadWriteCloser) { s.stop() },
		"left alone": func(_ *process, line io.ReadWriteCloser) { _ = line.Close() },
		"nonsense":   func(_ *process, line io.ReadWriteCloser) { _, _ = line.Write(bytes.Repeat([]byte{0xff}, 1<<10)) },
	} {
		t.Run(what, func(t *testing.T) {
			r := aRun(Options{})
			client, s, line := connected(t, r, aJob)
			over := make(chan error)
			go func() { over <- client.work(memory) }()
			require.Eventually(t, func() bool { return r.recording.Progress().Grants > 0 }, time.Minute, time.Millisecond)
			end(s, line)
			select {
			case err := <-over:
				require.NoError(t, err)
			case <-time.After(time.Minute):
				require.FailNow(t, "it works on")
			}
		})
	}
}

// The request to end the faults may arrive before the client is open.
func TestWorkerProcessEndsItsFaults_memory(t *testing.T) {
	for _, early := range []bool{false, true} {
		r, j := aRun(Options{}), aJob
		j.Options.Plan = chaos.Plan{Rules: []chaos.Rule{{Fault: chaos.Fault{Kind: chaos.FaultRequestLost}}}}
		client, s, _ := connected(t, r, j)
		if early {
			s.endFaults()
		}
		over := make(chan error)
		go func() { over <- client.work(memory) }()
		if !early {
			require.Eventually(t, func() bool { return r.recording.Progress().Faults > 1 }, time.Minute, time.Millisecond)
			require.Zero(t, r.recording.Progress().Grants, "nobody has said so")
			s.endFaults()
		}
		require.Eventually(t, func() bool { return r.recording.Progress().Grants > 0 }, time.Minute, time.Millisecond)
		s.stop()
		require.NoError(t, <-over)
	}
}

func TestWorkerProcessWaitsForItsBackend_memory(t *testing.T) {
	trouble := errors.New("trouble")
	for what, c := range map[string]struct {
		after time.Duration // the backend is unavailable for this time
		err   error         // the backend's error after that time
		want  error
		none  bool // no client
	}{
		"there at once":      {},
		"there in a while":   {after: 30 * time.Second},
		"there in an hour":   {after: time.Hour, none: true}, // the run ends after a minute
		"there, and refuses": {after: time.Second, err: trouble, want: trouble, none: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				began := time.Now()
				options := Options{Open: func(context.Context) (leasing.Provider, error) {
					if time.Since(began) < c.after {
						return nil, leasing.ErrUnavailable
					}
					return memlease.New(memlease.Options{}), c.err
				}}
				opened, err := remote{}.open(ctx, options, 0, new(clock))
				require.ErrorIs(t, err, c.want)
				require.Equal(t, c.none, opened == nil)
				require.LessOrEqual(t, time.Since(began), min(c.after, time.Minute)+time.Second)
				if opened != nil {
					require.NoError(t, opened.Close())
				}
			})
		})
	}
}

// closeRecorder records whether a client was closed.
type closeRecorder struct {
	leasing.Provider
	closed *bool
}

func (c closeRecorder) Close() error {
	*c.closed = true
	return c.Provider.Close()
}

func TestWorkerProcessClosesItsClient_memory(t *testing.T) {
	closed := false
	client, s, _ := connected(t, aRun(Options{}), aJob)
	s.stop()
	require.NoError(t, client.work(func(context.Context) (leasing.Provider, error) {
		return closeRecorder{memlease.New(memlease.Options{}), &closed}, nil
	}))
	require.True(t, closed)
}

// A worker uses the run's time.
func TestWorkerProcessSetsItsClock(t *testing.T) {
	r := aRun(Options{})
	r.clock.start = time.Now().Add(-time.Hour)
	client, _, _ := connected(t, r, aJob)
	began := time.Now()
	c, err := client.clock()
	require.NoError(t, err)
	require.WithinDuration(t, r.clock.start, c.start, time.Since(began))
}

// The worker gets the resource's answer to a write. A write without an answer is
// neither accepted nor refused.
func TestWorkerProcessWritesThroughItsRun(t *testing.T) {
	silence := make(chan struct{})
	defer close(silence)
	for what, c := range map[string]struct {
		fence           fencing.Fence
		accepted, fails bool
	}{
		"accepted":  {fence: func(ctx context.Context, _ string, _ int64, do func(context.Context) error) error { return do(ctx) }, accepted: true},
		"refused":   {fence: func(context.Context, string, int64, func(context.Context) error) error { return leasing.ErrStale }},
		"failed":    {fence: func(context.Context, string, int64, func(context.Context) error) error { return errors.New("down") }, fails: true},
		"no answer": {fence: func(context.Context, string, int64, func(context.Context) error) error { <-silence; return nil }, fails: true},
	} {
		client, _, _ := connected(t, aRun(Options{Fence: c.fence}), aJob)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		w := history.Write{Worker: 3, Name: "n", Token: 3}
		err := client.write(ctx, &w)
		stop()
		require.Equal(t, c.fails, err != nil, what)
		require.Equal(t, c.accepted, w.Accepted, what)
		if err == nil {
			require.Equal(t, 1, w.Order, what)
		}
	}
}

// A worker process records its items in the run's journal.
func TestWorkerProcessEntersIntoTheJournal(t *testing.T) {
	r := aRun(Options{})
	client, _, _ := connected(t, r, aJob)
	for _, what := range []any{
		history.Operation{Worker: 3, Number: 4, Verb: "acquire", Name: "n", Claim: "c"}, history.Operation{Worker: 3, Number: 4, Verb: "acquire", Name: "n", Claim: "c", Return: 5},
		history.Hold{Worker: 3, Name: "n", Claim: "c"}, history.Write{Name: "n", Order: 7}, history.Fault{Name: "n"}, history.Violation{Check: history.CheckGoroutine},
	} {
		client.Enter(what)
	}
	h := r.recording.Collect()
	require.Equal(t, []history.Operation{{Worker: 3, Number: 4, Begun: 1, Ended: 2, Verb: "acquire", Name: "n", Claim: "3.1", Return: 5}}, h.Operations)
	require.Equal(t, []history.Hold{{Worker: 3, Name: "n", Claim: "3.1"}}, h.Holds)
	require.Equal(t, []history.Write{{Name: "n", Order: 7}}, h.Writes)
	require.Equal(t, []history.Fault{{Name: "n"}}, h.Faults)
	require.Equal(t, []history.Violation{{Check: history.CheckGoroutine}}, r.recording.Collect().Found)
}

// startProcess starts a worker process. The process runs this program, whose TestMain calls
// WorkerMain.
func startProcess(t *testing.T, cmd *exec.Cmd, options Options) *process {
	t.Helper()
	options.Process = func() *exec.Cmd { return cmd }
	p, err := aRun(options).spawn(3)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func thisProgram(env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// working returns a worker process that has begun to work.
func working(t *testing.T, patience time.Duration, env ...string) *process {
	t.Helper()
	p := startProcess(t, thisProgram(env...), Options{TTL: time.Second, Patience: patience, Manager: leasing.Options{TTL: time.Second, Tuning: leasing.Tuning{RequestTimeout: time.Second}}})
	require.Eventually(t, func() bool { return p.r.recording.Progress().Operations > 0 }, time.Minute, time.Millisecond)
	return p
}

// A worker process gets the configuration of its run.
func TestWorkerProcessGetsItsJob(t *testing.T) {
	p := startProcess(t, thisProgram(), Options{
		Seed: 9, TTL: 2 * time.Second, Patience: 3 * time.Second,
		Plan: chaos.TotalOutage(chaos.TotalOutageOptions{}), Manager: leasing.Options{Tuning: leasing.Tuning{DriftFactor: 0.25, Random: rand.Float64}},
	})
	p.endFaults()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, p.run(ctx), "it gets the signal to stop, and ends")
	var text []byte
	require.NoError(t, p.Job(0, &text))
	for _, want := range []string{
		`"index":3`, `"names":["a","b"]`, `"seed":9`, `"total-outage"`, `"ttl":2000000000`, `"patience":3000000000`, `"drift_factor":0.25`,
	} {
		require.Contains(t, string(text), want)
	}
}

func TestKilledWorkerProcessIsNoFailure(t *testing.T) {
	p := working(t, time.Minute)
	p.r.recording.Enter(history.Hold{Worker: 3, Name: "n", Claim: "c", Until: time.Hour})
	p.kill()
	require.NoError(t, p.run(t.Context()))
	require.True(t, slices.ContainsFunc(p.r.recording.Collect().Holds, func(h history.Hold) bool { return h.Name == "n" && h.Ending == history.EndingKilled }))
}

func TestWorkerProcessThatFailsSaysWhy(t *testing.T) {
	p := startProcess(t, thisProgram("TORTURE_TEST_FAILURE=no luck"), Options{})
	err := p.run(t.Context())
	require.ErrorContains(t, err, "no luck")
	exit := (*exec.ExitError)(nil)
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
}

func TestGoroutineThatAWorkerProcessLeavesBehind(t *testing.T) {
	t.Parallel()
	p := working(t, time.Second, "TORTURE_TEST_LEAK=1")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, p.run(ctx))
	found := p.r.recording.Collect().Found
	require.Len(t, found, 1)
	require.Equal(t, history.CheckGoroutine, found[0].Check)
}

func TestClosedWorkerProcessIsGone(t *testing.T) {
	for _, cmd := range []*exec.Cmd{thisProgram(), exec.Command("sleep", "600")} {
		p := startProcess(t, cmd, Options{})
		require.NoError(t, p.Close())
		<-p.ended
		<-p.Done()
	}
}

func TestStoppedWorkerProcessIsRecordedAndGoesOn(t *testing.T) {
	p := working(t, time.Minute)
	p.r.suspend(t.Context(), p, 20*time.Millisecond)
	h := p.r.recording.Collect()
	require.Len(t, h.Stops, 1)
	require.Equal(t, 3, h.Stops[0].Worker)
	require.GreaterOrEqual(t, h.Stops[0].To, h.Stops[0].From+20*time.Millisecond)
	require.Len(t, h.Faults, 1)
	require.Equal(t, -1, h.Faults[0].Worker)
	require.Equal(t, h.Stops[0].From, h.Faults[0].At)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, p.run(ctx), "it gets the signal to stop")

	p.r.suspend(t.Context(), p, time.Hour)
	require.Len(t, p.r.recording.Collect().Stops, 1, "one that has ended can't be stopped")
}
