package chaos_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
)

// repeatFailer answers the second request for each operation with err.
type repeatFailer struct {
	*backend
	err   error
	calls map[chaos.Op]int
}

func (m *repeatFailer) As(target any) bool {
	batcher, ok := target.(*abstractions.BatchRenewer)
	if ok {
		*batcher = m
	}
	return ok
}

func (m *repeatFailer) again(op chaos.Op) error {
	if m.calls[op]++; m.calls[op] == 2 {
		return m.err
	}
	return nil
}

func (m *repeatFailer) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if err := m.again(chaos.OpAcquire); err != nil {
		return abstractions.Grant{}, err
	}
	return m.backend.Acquire(ctx, req)
}

func (m *repeatFailer) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	if err := m.again(chaos.OpRenew); err != nil {
		return []abstractions.RenewResult{{Err: err}}, nil //nolint:nilerr // the error belongs to the item
	}
	return m.backend.RenewBatch(ctx, reqs)
}

func (m *repeatFailer) Break(ctx context.Context, req abstractions.BreakRequest) (leasing.BreakResult, error) {
	if err := m.again(chaos.OpBreak); err != nil {
		return leasing.BreakResult{}, err
	}
	return m.backend.Break(ctx, req)
}

// If the repetition of an applied operation is refused, for example by throttling, the outcome is
// reported as unknown.
func TestAppliedTwiceIsUnknownIfTheSecondAnswerWouldBeALie(t *testing.T) {
	lost := &leasing.LostError{Reason: leasing.LostTaken}
	for err, unknown := range map[error]bool{
		leasing.ErrThrottled: true, leasing.ErrDenied: true, leasing.ErrNotSetUp: true, leasing.ErrStale: true,
		leasing.ErrHeld: false, leasing.ErrReleased: false, lost: false, leasing.ErrUnavailable: false,
	} {
		m := &repeatFailer{newBackend(), err, map[chaos.Op]int{}}
		p, wrapErr := chaos.Wrap(m, chaos.Plan{Rules: []chaos.Rule{{Fault: chaos.Fault{Kind: chaos.FaultAppliedTwice}}}}, chaos.Options{})
		require.NoError(t, wrapErr)
		defer p.Close()
		checkError := func(what string, got error) {
			require.Error(t, got, what)
			assert.Equal(t, unknown, !errors.Is(got, err), "%s, %v: %v", what, err, got)
			assert.Equal(t, unknown, errors.Is(got, chaos.ErrInjected), "%s, %v: %v", what, err, got)
			if unknown {
				assert.False(t, abstractions.NotApplied(got), "%s, %v: %v", what, err, got)
			}
		}
		_, got := p.Acquire(t.Context(), claim("n", "id"))
		checkError("acquire", got)
		results, got := p.RenewBatch(t.Context(), []abstractions.RenewRequest{m.renewal("n", "id")})
		require.NoError(t, got)
		checkError("renew", results[0].Err)
		_, got = p.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
		checkError("break", got)
	}
}
