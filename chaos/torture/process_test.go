package torture

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func newRemote() *remote { return &remote{out: newLines(io.Discard), waiting: map[int]chan response{}} }

// A worker process ends when it is told to, and when nobody is left to tell it.
func TestWorkerProcessEndsWithItsRun(t *testing.T) {
	for what, end := range map[string]func(in io.WriteCloser, out *lines){
		"told":       func(_ io.WriteCloser, out *lines) { out.say(order{Stop: true}) },
		"left alone": func(in io.WriteCloser, _ *lines) { _ = in.Close() },
		"nonsense":   func(in io.WriteCloser, _ *lines) { _, _ = io.WriteString(in, "stop!\n") },
	} {
		t.Run(what, func(t *testing.T) {
			from, in := io.Pipe()
			defer in.Close()
			ctx, stop := context.WithCancel(t.Context())
			go newRemote().listen(json.NewDecoder(from), stop)
			out := newLines(in)
			out.say(order{Calm: true})
			require.NoError(t, ctx.Err())
			end(in, out)
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
				require.FailNow(t, "it works on")
			}
		})
	}
}

// The word that the faults are to end may come before there is a client.
func TestWorkerProcessEndsItsFaults(t *testing.T) {
	for _, early := range []bool{false, true} {
		calmed, r := 0, newRemote()
		how := func() { calmed++ }
		if early {
			r.calmWith(nil)
			r.calmWith(how)
		} else {
			r.calmWith(how)
			require.Zero(t, calmed, "nobody has said so")
			r.calmWith(nil)
		}
		require.Equal(t, 1, calmed)
	}
}

func TestWorkerProcessWaitsForItsBackend_memory(t *testing.T) {
	trouble := errors.New("trouble")
	for what, c := range map[string]struct {
		after time.Duration // until then the backend is not there
		err   error         // what it answers from then on
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
				l, err := newRemote().open(ctx, options, &job{})
				require.ErrorIs(t, err, c.want)
				require.Equal(t, c.none, l == nil)
				require.LessOrEqual(t, time.Since(began), min(c.after, time.Minute)+time.Second)
				if l != nil {
					require.NoError(t, l.client.Close())
				}
			})
		})
	}
}

// closing tells whether a client was closed.
type closing struct {
	leasing.Provider
	closed *bool
}

func (c closing) Close() error {
	*c.closed = true
	return c.Provider.Close()
}

func TestWorkerProcessClosesItsClient_memory(t *testing.T) {
	closed := false
	from, in := io.Pipe()
	go func() {
		newLines(in).say(order{Job: &job{Names: []string{"n"}, TTL: time.Second, Patience: time.Second}})
		_ = in.Close()
	}()
	err := workIn(from, newLines(io.Discard), func(context.Context) (leasing.Provider, error) {
		return closing{memlease.New(memlease.Options{}), &closed}, nil
	})
	require.NoError(t, err)
	require.True(t, closed)
}

// A write that the resource did not answer is neither accepted nor refused.
func TestWorkerProcessWritesThroughItsRun(t *testing.T) {
	for what, c := range map[string]struct {
		answer   *response
		accepted bool
		err      bool
	}{
		"accepted":  {answer: &response{Place: 5, Accepted: true}, accepted: true},
		"refused":   {answer: &response{Place: 5}},
		"failed":    {answer: &response{Failed: true}, err: true},
		"no answer": {err: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				r := newRemote()
				if c.answer != nil {
					go func() {
						synctest.Wait()
						c.answer.Request = 1
						r.wrote(*c.answer)
					}()
				}
				place, accepted, err := r.write(ctx, "n", 1)
				require.Equal(t, c.err, err != nil)
				require.Equal(t, c.accepted, accepted)
				if err == nil {
					require.Equal(t, 5, place)
				}
			})
		})
	}
}
