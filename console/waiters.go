package console

import (
	"context"
	"errors"

	"github.com/distributedleasing/leasing"
)

// waitersOf tells who waits for a name, in order, if the backend does.
func waitersOf(ctx context.Context, manager leasing.Manager, name string) (waiters []waiter, known bool, err error) {
	waiting, err := manager.Waiters(ctx, name)
	if errors.Is(err, leasing.ErrUnsupported) {
		return nil, false, nil
	}
	for _, w := range waiting {
		waiters = append(waiters, waiter{ID: w.ID, Owner: w.Owner, Waited: w.Now.Sub(w.Since)})
	}
	return waiters, true, err
}
