package sqlitelease

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	"github.com/stretchr/testify/require"
)

// loopFor is the time for which a child repeatedly acquires its name.
const loopFor = 2 * time.Second

// loop is a typical program that repeatedly acquires one name and works for a moment. It prints
// that it is ready, starts when it reads a line, and prints at the end how often it held the name.
func loop(rawURL string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := OpenURL(ctx, rawURL)
	if err != nil {
		return err
	}
	defer p.Close()
	manager, err := leasing.NewManager(p, leasing.Options{})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	turns := 0
	for end := time.Now().Add(loopFor); time.Now().Before(end); turns++ {
		lease, err := manager.Acquire(ctx, "n")
		if err != nil {
			return err
		}
		<-time.After(2 * time.Millisecond)
		if err := lease.Release(ctx); err != nil {
			return err
		}
	}
	fmt.Println(turns)
	return manager.Close(ctx)
}

// loopProcess is a process that runs loop.
type loopProcess struct {
	cmd   *exec.Cmd
	start io.WriteCloser
	lines *bufio.Reader
}

func startLoop(t *testing.T, rawURL string) *loopProcess {
	cmd := exec.CommandContext(bounded(t), os.Args[0], rawURL)
	cmd.Env = append(os.Environ(), dialecttest.ChildVariable+"=loop")
	cmd.Stderr = os.Stderr
	start, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	l := &loopProcess{cmd, start, bufio.NewReader(output)}
	_, err = l.lines.ReadString('\n')
	require.NoError(t, err)
	return l
}

// A loop in one process leaves the other processes their turns.
func TestSqliteLoopsOfProcessesShareAName(t *testing.T) {
	for _, processes := range []int{2, 20} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			rawURL := "sqlite://" + filepath.Join(t.TempDir(), "leases.db") + "?create=true&synchronous=normal"
			all := make([]*loopProcess, processes)
			for i := range all {
				all[i] = startLoop(t, rawURL)
			}
			for _, l := range all {
				_, err := io.WriteString(l.start, "go\n")
				require.NoError(t, err)
			}
			var sum, squares float64
			for _, l := range all {
				var turns float64
				_, err := fmt.Fscan(l.lines, &turns)
				require.NoError(t, err)
				require.NoError(t, l.cmd.Wait())
				sum, squares = sum+turns, squares+turns*turns
			}
			t.Logf("%.0f leases, Jain's index %.3f", sum, sum*sum/(squares*float64(processes)))
			// Without a queue Jain's index would be about 1 divided by the number of processes. On
			// a busy machine some processes miss their turns.
			require.Greater(t, sum*sum/(squares*float64(processes)), 0.7, "Jain's index of fairness")
		})
	}
}

// pipeOf returns the path of the pipe that wakes a provider's waiters.
func pipeOf(p *Provider, database string) string {
	return pipePath(database, backendOf(p).Channel)
}

// A waiter whose process was killed does not delay the others, and its pipe is removed.
func TestSqliteWaiterOfADeadProcessLosesItsPlace(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has pipes to be woken by")
	}
	ctx := bounded(t)
	path := filepath.Join(t.TempDir(), "leases.db")
	p := openTest(t, "sqlite://"+path, nil)
	holder, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	queue := func() dialect.WaitList {
		var waiters string
		require.NoError(t, backendOf(p).db.QueryRow("SELECT waiters FROM lease").Scan(&waiters))
		return dialect.WaitList(waiters)
	}
	dead := startLoop(t, "sqlite://"+path)
	_, err = io.WriteString(dead.start, "go\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return queue().Len() == 1 }, 20*time.Second, time.Millisecond)
	_, channel := queue().Head()
	pipe := pipePath(path, channel)
	require.FileExists(t, pipe)
	require.NoError(t, dead.cmd.Process.Kill())
	require.Error(t, dead.cmd.Wait())

	next := claimOf("n", time.Minute)
	wakeups, err := p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: next.ID})
	require.NoError(t, err)
	_, err = p.Acquire(ctx, next)
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.Equal(t, 2, queue().Len())
	require.NoError(t, p.Release(ctx, releaseOf(holder)))
	require.NoFileExists(t, pipe)
	require.Equal(t, 1, queue().Len())
	awaitWakeup(t, wakeups)
	_, err = p.Acquire(ctx, next)
	require.NoError(t, err, "the name is reserved for it")
	require.Empty(t, queue())
}

// A waiter that leaves after its wake-up passes its turn on, even to a waiter to which the release
// has not sent the time of its turn.
func TestSqliteLeavingWaitersHandTheirTurnOn(t *testing.T) {
	ctx, open := bounded(t), database.New(t)
	p := open()
	holder, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	const waiters = 6 // a release sends the time of their turn to all but the fifth
	var wakeups [waiters]abstractions.Wakeups
	var leave [waiters]context.CancelFunc
	for i := range waiters {
		claim := claimOf("n", time.Minute)
		var waiting context.Context
		waiting, leave[i] = context.WithCancel(ctx)
		defer leave[i]()
		wakeups[i], err = p.Wait(waiting, abstractions.WaitRequest{Name: "n", ID: claim.ID})
		require.NoError(t, err)
		for range 2 { // a repeated acquire does not join the queue again
			_, err = p.Acquire(ctx, claim)
			require.ErrorIs(t, err, abstractions.ErrHeld)
		}
	}
	queued := func() int {
		var waiters string
		require.NoError(t, backendOf(p).db.QueryRow("SELECT waiters FROM lease").Scan(&waiters))
		return dialect.WaitList(waiters).Len()
	}
	require.Equal(t, waiters, queued())
	require.NoError(t, p.Release(ctx, releaseOf(holder)))
	for i := range waiters - 2 {
		leave[i]()
		require.Eventually(t, func() bool { return queued() == waiters-1-i }, 20*time.Second, time.Millisecond)
	}
	awaitWakeup(t, wakeups[waiters-2])
}

// Other writes during a reservation do not change the reservation, and a waiter that misses its
// turn loses its place when another claim acquires the name.
func TestSqliteReservationLastsAsLongAsItShould(t *testing.T) {
	ctx, p := bounded(t), database.New(t)()
	holder, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	s, late := backendOf(p), claimOf("n", time.Minute)
	_, err = p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: late.ID})
	require.NoError(t, err)
	_, err = p.Acquire(ctx, late)
	require.ErrorIs(t, err, abstractions.ErrHeld)
	now := s.Clock()
	s.Clock = func() hostclock.Time { return now } // the clock stands still
	require.NoError(t, p.Release(ctx, releaseOf(holder)))
	require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "another", Token: 1}))
	other := claimOf("n", time.Minute)
	var held *abstractions.HeldError
	_, err = p.Acquire(ctx, other)
	require.ErrorAs(t, err, &held)
	require.False(t, held.Holder.Held)
	require.InDelta(t, waitqueue.Grace, held.RetryAfter, float64(time.Microsecond))

	const later = waitqueue.Grace + time.Microsecond // deadlines are rounded up
	now.SinceBoot, now.Wall = now.SinceBoot+later, now.Wall.Add(later)
	grant, err := p.Acquire(ctx, other)
	require.NoError(t, err, "the turn has passed")
	require.NoError(t, p.Release(ctx, releaseOf(grant)))
	_, err = p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err, "nobody waits any more")
}

// Without a pipe the waiter polls for its turn, and keeps its place.
func TestSqliteWaitersWithoutAPipeHaveTheirTurns(t *testing.T) {
	ctx, open := bounded(t), database.New(t)
	p, polling := open(), open()
	require.NoError(t, polling.Ping(ctx))
	require.NoError(t, os.Mkdir(pipeOf(polling, pathOf(t, p)), 0o700))
	holder, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	first, second := claimOf("n", time.Minute), claimOf("n", time.Minute)
	wait := func(p *Provider, req abstractions.AcquireRequest) abstractions.Wakeups {
		wakeups, err := p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: req.ID})
		require.NoError(t, err)
		_, err = p.Acquire(ctx, req)
		require.ErrorIs(t, err, abstractions.ErrHeld)
		return wakeups
	}
	wakeups := wait(polling, first)
	require.True(t, backendOf(polling).Polls.Load())
	var queue string
	require.NoError(t, backendOf(p).db.QueryRow("SELECT waiters FROM lease").Scan(&queue))
	_, channel := dialect.WaitList(queue).Head()
	require.Equal(t, dialect.Polled, channel, "nobody can wake it")
	wait(p, second)
	require.NoError(t, p.Release(ctx, releaseOf(holder)))
	awaitWakeup(t, wakeups)
	grant, err := polling.Acquire(ctx, first)
	require.NoError(t, err)
	require.NoError(t, polling.Release(ctx, releaseOf(grant)))
}

func TestWaitList(t *testing.T) {
	q := dialect.WaitList("aa c1 1 id-1 worker 1\nbb c2 2 id-2 aa\ncc c3 3 id-3 worker 3\n")
	waiter, channel := q.Head()
	require.Equal(t, []string{"aa", "c1"}, []string{waiter, channel})
	require.Equal(t, 3, q.Len())
	left, was := q.Without("bb")
	require.True(t, was)
	require.Equal(t, dialect.WaitList("aa c1 1 id-1 worker 1\ncc c3 3 id-3 worker 3\n"), left)
	again, was := left.Without("bb")
	require.False(t, was)
	require.Equal(t, left, again)
	left, _ = left.Without("aa")
	left, _ = left.Without("c3")
	require.Equal(t, dialect.WaitList("cc c3 3 id-3 worker 3\n"), left, "what is the name of a pipe is no waiter")
	require.Empty(t, left.Rest())
	require.Empty(t, dialect.WaitList("no queue of ours").Rest())
	waiter, channel = dialect.WaitList("").Head()
	require.Empty(t, waiter+channel)
}
