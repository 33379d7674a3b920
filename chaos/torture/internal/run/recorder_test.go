package run

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// scriptedProvider is a backend with scripted answers.
type scriptedProvider struct {
	leasing.Provider
	grant     abstractions.Grant
	err       error
	results   []abstractions.RenewResult
	broken    leasing.BreakResult
	onRequest func(id string)
}

func (s scriptedProvider) Acquire(_ context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	s.onRequest(req.ID)
	return s.grant, s.err
}

func (s scriptedProvider) Break(context.Context, abstractions.BreakRequest) (leasing.BreakResult, error) {
	return s.broken, s.err
}

func (s scriptedProvider) RenewBatch(_ context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	s.onRequest(reqs[0].ID)
	return s.results, s.err
}

// recorded returns a recorder of worker 3, over a scripted backend.
func recorded(s scriptedProvider) (*recorder, *history.Recording) {
	if s.onRequest == nil {
		s.onRequest = func(string) {}
	}
	b := new(history.Recording)
	return recorder{layer: history.LayerClient, worker: 3, clock: &clock{start: time.Now()}, journal: b, number: new(atomic.Int64)}.above(s), b
}

func acquire(t *testing.T, s scriptedProvider) (history.Operation, error) {
	t.Helper()
	r, b := recorded(s)
	_, err := r.Acquire(t.Context(), abstractions.AcquireRequest{Name: "n", ID: "mine", TTL: time.Second})
	h := b.Collect()
	require.Len(t, h.Operations, 1)
	return h.Operations[0], err
}

// The recorded result is unknown only if the operation may have been applied.
func TestRecordedResults(t *testing.T) {
	for want, errs := range map[history.Result][]error{
		history.ResultDone:     {nil},
		history.ResultHeld:     {leasing.ErrHeld, new(leasing.HeldError)},
		history.ResultLost:     {leasing.ErrLost, new(leasing.LostError)},
		history.ResultReleased: {leasing.ErrReleased},
		history.ResultRefused: {
			leasing.ErrStale, leasing.ErrInvalid, leasing.ErrDenied, leasing.ErrNotSetUp, leasing.ErrClosed, leasing.ErrUnsupported,
			new(leasing.ThrottledError),
		},
		history.ResultUnknown: {leasing.ErrUnavailable, context.Canceled, context.DeadlineExceeded, errors.New("something else")},
	} {
		for _, err := range errs {
			if err != nil {
				err = fmt.Errorf("in other words: %w", err)
			}
			o, got := acquire(t, scriptedProvider{err: err})
			require.Equal(t, want, o.Result, "%v", err)
			require.Equal(t, err, got)
		}
	}
}

// A call is recorded before its reply, because the process may be killed in the middle of the call.
func TestCallIsRecordedBeforeItReturns(t *testing.T) {
	var b *history.Recording
	var r *recorder
	r, b = recorded(scriptedProvider{onRequest: func(string) {
		h := b.Collect()
		require.Len(t, h.Operations, 1)
		require.Equal(t, history.ResultUnknown, h.Operations[0].Result)
		require.Zero(t, h.Operations[0].Return)
	}})
	_, err := r.Acquire(t.Context(), abstractions.AcquireRequest{Name: "n", ID: "mine", TTL: time.Second})
	require.NoError(t, err)
}

func TestRecordedTTLIsTheOneGranted(t *testing.T) {
	o, err := acquire(t, scriptedProvider{grant: abstractions.Grant{Token: 1, TTL: 15 * time.Second}})
	require.NoError(t, err)
	require.Equal(t, 15*time.Second, o.TTL)
	o, _ = acquire(t, scriptedProvider{err: leasing.ErrUnavailable})
	require.Equal(t, time.Second, o.TTL, "as asked for: it may have been granted")
}

// A refused acquire is recorded with a holder only if the refusal names a confirmed holder.
func TestRecordedHolderIsCertain(t *testing.T) {
	for name, c := range map[string]struct {
		holder leasing.Record
		want   string
	}{
		"certain":       {leasing.Record{Fingerprint: leasing.FingerprintOf("x"), Held: true}, leasing.FingerprintOf("x").String()},
		"of this run":   {leasing.Record{Fingerprint: leasing.FingerprintOf("mine"), Held: true}, "3.1"},
		"unconfirmed":   {leasing.Record{Fingerprint: leasing.FingerprintOf("x"), Held: true, Unconfirmed: true}, ""},
		"not held":      {leasing.Record{Fingerprint: leasing.FingerprintOf("x")}, ""},
		"without an ID": {leasing.Record{Held: true}, ""},
	} {
		o, err := acquire(t, scriptedProvider{err: &leasing.HeldError{Holder: c.holder}})
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.Equal(t, history.ResultHeld, o.Result, name)
		require.Equal(t, c.want, o.Holder, name)
	}
}

// A break that finds no holder is recorded as such.
func TestBreakWithoutAHolderIsRecorded(t *testing.T) {
	for held, noHolder := range map[bool]bool{true: false, false: true} {
		r, b := recorded(scriptedProvider{broken: leasing.BreakResult{WasHeld: held}})
		_, err := r.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, noHolder, b.Collect().Operations[0].NoHolder)
	}
}

// An item without a result may have been renewed, whatever the error of the batch.
func TestItemWithoutAResultIsUnknown(t *testing.T) {
	for _, err := range []error{nil, leasing.ErrDenied, leasing.ErrUnavailable} {
		r, b := recorded(scriptedProvider{err: err, results: []abstractions.RenewResult{{Grant: abstractions.Grant{Name: "a", ID: "1", Token: 4}}, {}}})
		batcher, ok := abstractions.As[abstractions.BatchRenewer](r)
		require.True(t, ok)
		results, got := batcher.RenewBatch(t.Context(), []abstractions.RenewRequest{{Name: "a", ID: "1", Token: 4}, {Name: "b", ID: "2", Token: 5}})
		require.Equal(t, err, got)
		require.Len(t, results, 2)
		h := b.Collect()
		require.Len(t, h.Operations, 2)
		for _, o := range h.Operations {
			require.Equal(t, map[string]history.Result{"a": history.ResultDone, "b": history.ResultUnknown}[o.Name], o.Result)
			require.Equal(t, map[string]int64{"a": 4, "b": 5}[o.Name], o.Token)
		}
	}
}
