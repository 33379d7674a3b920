package waitqueue

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connection delivers the messages of a test.
type connection struct{ messages chan string }

func (c connection) Receive(ctx context.Context) (string, error) {
	select {
	case message, open := <-c.messages:
		if !open {
			return "", io.EOF
		}
		return message, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
func (connection) Ping(context.Context) error { return nil }
func (connection) Close()                     {}

// removal is a claim that was removed from a queue, with the time limit of the request.
type removal struct {
	key, id string
	within  time.Duration
}

// process is a process whose claims wait. Time is virtual.
type process struct {
	*Queue[string]
	t    *testing.T
	left []removal
	gate chan struct{} // unless nil, each removal from the queue waits until gate is closed
}

func run(t *testing.T, test func(p *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &process{t: t}
		p.Queue = New("channel", func(ctx context.Context, key, id string) {
			until, _ := ctx.Deadline()
			p.left = append(p.left, removal{key, id, time.Until(until)})
			if p.gate != nil {
				<-p.gate
			}
		})
		p.Wakeups.Connect = func(context.Context) (wakeup.Connection, error) {
			return connection{make(chan string)}, nil
		}
		defer p.Close()
		test(p)
	})
}

// register registers a claim for the name "n".
func (p *process) register(id string) (wakeups abstractions.Wakeups, leave func()) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	wakeups, err := p.Register(ctx, "n", id)
	require.NoError(p.t, err)
	return wakeups, func() {
		cancel()
		synctest.Wait()
	}
}

// ask stands for an acquire that is refused: the claim joins the queue.
func (p *process) ask(id string) {
	p.t.Helper()
	key, ok := p.Join(id)
	require.True(p.t, ok)
	require.Equal(p.t, "n", key)
}

func (p *process) joins(id string) bool {
	_, ok := p.Join(id)
	return ok
}

func TestOnlyRegisteredClaimsJoin(t *testing.T) {
	run(t, func(p *process) {
		require.False(t, p.Waits())
		require.False(t, p.joins("a"))
		_, leave := p.register("a")
		require.True(t, p.Waits())
		require.False(t, p.joins("b"))
		p.ask("a")
		ids, keys := p.Waiting()
		require.Equal(t, []string{"a"}, ids)
		require.Equal(t, []string{"n"}, keys)
		leave()
		require.False(t, p.Waits())
		require.False(t, p.joins("a"))
		ids, _ = p.Waiting()
		require.Empty(t, ids)
	})
}

// A process that can't be woken gets no place in a queue, since others would wait for that process.
func TestWhereNobodyListensNobodyJoins(t *testing.T) {
	run(t, func(p *process) {
		refused := errors.New("no")
		p.Wakeups.Connect = func(context.Context) (wakeup.Connection, error) { return nil, refused }
		_, err := p.Register(p.t.Context(), "n", "a")
		require.ErrorIs(t, err, refused)
		require.False(t, p.Waits())
		require.False(t, p.joins("a"))
	})
	run(t, func(p *process) {
		messages := make(chan string)
		p.Wakeups.Connect = func(context.Context) (wakeup.Connection, error) { return connection{messages}, nil }
		wakeups, leave := p.register("a")
		defer leave()
		p.ask("a")
		messages <- "a"
		<-wakeups.C
		p.Wakeups.Connect = func(context.Context) (wakeup.Connection, error) { return nil, io.EOF }
		close(messages)
		synctest.Wait()
		require.True(t, p.Waits())
		require.False(t, p.joins("a"))
	})
}

func TestAClaimThatLeavesIsTakenFromTheQueue(t *testing.T) {
	run(t, func(p *process) {
		_, leave := p.register("never asked")
		leave()
		require.Empty(t, p.left)

		_, leave = p.register("asked")
		p.ask("asked")
		leave()
		require.Equal(t, []removal{{"n", "asked", leaveTimeout}}, p.left)

		_, leave = p.register("served")
		p.ask("served")
		p.Served("served")
		p.Served("another")
		leave()
		require.Len(t, p.left, 1, "with the name it left the queue")
	})
}

// A claim with a second registration keeps its place, regardless of the order in which its
// registrations end.
func TestARegistrationEndsWithTheLast(t *testing.T) {
	for name, first := range map[string]int{"the earlier ends first": 0, "the later ends first": 1} {
		t.Run(name, func(t *testing.T) {
			run(t, func(p *process) {
				var leave [2]func()
				_, leave[0] = p.register("a")
				p.ask("a")
				_, leave[1] = p.register("a") // and sends no acquire after that
				leave[first]()
				if first == 0 {
					require.Empty(t, p.left)
					leave[1]()
				}
				require.Equal(t, []removal{{"n", "a", leaveTimeout}}, p.left)
				leave[0]()
				require.Len(t, p.left, 1)
			})
		})
	}
}

func TestATurnComesWhenItIsDue(t *testing.T) {
	run(t, func(p *process) {
		wakeups, leave := p.register("a")
		require.True(t, p.Due("a", 0, nil), "now")
		for _, after := range []time.Duration{Grace, time.Millisecond} {
			began := time.Now()
			require.False(t, p.Due("a", after, nil))
			<-wakeups.C
			require.Equal(t, after, time.Since(began))
		}
		p.Due("a", Grace, nil)
		p.Due("a", 3*Grace, nil) // the latest call counts
		began := time.Now()
		<-wakeups.C
		require.Equal(t, 3*Grace, time.Since(began))

		p.Due("a", Grace, nil)
		leave()
		<-time.After(time.Minute)
		require.Empty(t, wakeups.C, "it has left")
	})
}

// A claim that has left passes on a turn that it still gets.
func TestAClaimThatHasLeftHandsItsTurnOn(t *testing.T) {
	run(t, func(p *process) {
		key := "n"
		require.False(t, p.Due("gone", Grace, &key))
		require.False(t, p.Due("gone", 0, nil), "where nobody knows the name")
		synctest.Wait()
		require.Empty(t, p.left)
		require.False(t, p.Due("gone", 0, &key))
		synctest.Wait()
		require.Equal(t, []removal{{"n", "gone", leaveTimeout}}, p.left)
	})
}

// Close waits for the claims that are leaving. After Close no claim joins a queue or leaves one, since the connections
// are closed.
func TestCloseWaitsForThoseThatLeave(t *testing.T) {
	run(t, func(p *process) {
		p.gate = make(chan struct{})
		_, leave := p.register("leaving")
		_, stay := p.register("staying")
		p.ask("leaving")
		p.ask("staying")
		leave()
		closed := make(chan struct{})
		go func() { p.Close(); close(closed) }()
		synctest.Wait()
		require.Len(t, p.left, 1)
		select {
		case <-closed:
			t.Fatal("it did not wait")
		default:
		}
		close(p.gate)
		<-closed
		stay()
		key := "n"
		require.False(t, p.Due("gone", 0, &key))
		synctest.Wait()
		require.Len(t, p.left, 1)
		_, err := p.Register(p.t.Context(), "n", "late")
		require.ErrorIs(t, err, abstractions.ErrClosed)
	})
}
