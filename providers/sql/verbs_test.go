package sqllease

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// lateBackend applies each rule after its caller has left.
type lateBackend struct {
	dialect.Backend
	late sync.WaitGroup
}

func (b *lateBackend) Apply(ctx context.Context, op dialect.Op) (dialect.Applied, error) {
	b.late.Go(func() {
		op.Rule(&providerkit.Record{ID: "claim", Token: 7, Left: time.Hour})
	})
	return dialect.Applied{}, context.DeadlineExceeded
}

// The race detector finds a rule that writes the result of a call that has returned.
func TestTrap_T302_ARuleThatOutlivesItsCallWritesNoResult(t *testing.T) {
	b := &lateBackend{}
	d := &driver{backend: b}
	d.checked.Store(time.Now().UnixNano())
	result, err := d.Break(t.Context(), abstractions.BreakRequest{Name: "name", Immediate: true})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, result)
	b.late.Wait()
}
