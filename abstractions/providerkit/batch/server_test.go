package batch

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// directTime is the time limit of direct calls in the Redis provider.
const directTime = 100 * time.Millisecond

// number is an operation to which the server replies with the operation's number.
type number struct {
	n          int
	repeatable bool
	reply      int
	Outcome
}

func (op *number) Repeatable() bool { return op.repeatable }

func (op *number) Fail(err error) {
	op.Outcome.Fail(err)
	op.reply = 0
}

// outcome returns the reply, or the error.
func (op *number) outcome(err error) (int, error) {
	if err == nil {
		err = op.err
	}
	if err != nil {
		return 0, err
	}
	return op.reply, nil
}

func numbers(n int) []*number {
	ops := make([]*number, n)
	for i := range ops {
		ops[i] = &number{n: i}
	}
	return ops
}

// server is a fake server. Time is virtual.
type server struct {
	*Batcher[*number]
	t *testing.T
	// answer, unless nil, delays or fails a call.
	answer func(ctx context.Context, call int) error

	mu    sync.Mutex
	calls [][]int // the numbers in each call
	last  bool    // the last call was marked as direct
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t}
	s.Batcher = New(s.send, directTime)
	t.Cleanup(s.Close)
	return s
}

func (s *server) send(ctx context.Context, ops []*number, direct bool) {
	all := make([]int, len(ops))
	for i, op := range ops {
		all[i] = op.n
	}
	s.mu.Lock()
	s.calls, s.last = append(s.calls, all), direct
	call, answer := len(s.calls), s.answer
	s.mu.Unlock()
	var err error
	if answer != nil {
		err = answer(ctx, call)
	}
	for _, op := range ops {
		if op.Fail(err); err == nil {
			op.reply = op.n
		}
	}
}

// sent returns the numbers that were sent, in order.
func (s *server) sent() (all []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.calls {
		all = append(all, call...)
	}
	return all
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// do sends the number n through a worker.
func (s *server) do(ctx context.Context, n int) (int, error) {
	op := &number{n: n}
	err := s.Do(ctx, op)
	return op.outcome(err)
}

func (s *server) doAll(ctx context.Context, ops []*number) []error {
	return DoAll(ctx, ops, func(*number) (*Batcher[*number], error) { return s.Batcher, nil })
}

// hang delays the first n calls until the gate is closed, or their deadline passes.
func (s *server) hang(n int) (gate chan struct{}) {
	gate = make(chan struct{})
	s.answer = func(ctx context.Context, call int) error {
		if call > n {
			return nil
		}
		until, _ := ctx.Deadline()
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case <-gate:
			return nil
		case <-timer.C: // like a connection with that deadline
			return context.DeadlineExceeded
		}
	}
	return gate
}

// through returns an answer function that makes each call wait for its own gate.
func (s *server) through(gates []chan struct{}) func(ctx context.Context, call int) error {
	return func(_ context.Context, call int) error {
		<-gates[call-1]
		return nil
	}
}

// requireIdle checks that no call and no request is left.
func (s *server) requireIdle() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Batcher.mu.Lock()
	defer s.Batcher.mu.Unlock()
	require.Equal(s.t, "0 in flight, 0 late, 0 waiting", fmt.Sprintf("%d in flight, %d late, %d waiting", s.inFlight, s.late, len(s.queue)))
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// cancelledAfter returns a context that ends before its deadline.
func cancelledAfter(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t, time.Hour))
	time.AfterFunc(d, cancel)
	return ctx
}
