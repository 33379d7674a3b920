package redislease

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
)

// bootstrap lets new nodes vote at once: it gives all of them their marker if all
// answer and none has one. Otherwise it does nothing, since then there may be leases:
// a node without its marker stays out for the longest TTL.
func (r *redlock) bootstrap(ctx context.Context) error {
	known, err := r.mark(ctx, false)
	if err != nil || known > 0 {
		return err
	}
	_, err = r.mark(ctx, true)
	return err
}

// mark returns how many nodes have their marker, or had it before it was set.
func (r *redlock) mark(ctx context.Context, set bool) (known int, err error) {
	p := r.ask(ctx, r.patience(r.options.maxTTL), func(int) operation { return markOp(set) }, func(*poll) bool { return false })
	for i, reply := range p.replies {
		n, l, err := reply.number()
		if l != nil {
			err = l.unexpected()
		}
		if err != nil {
			return 0, r.label(i, err)
		}
		known += int(n)
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", abstractions.ErrUnavailable, context.Cause(ctx))
	}
	return known, nil
}
