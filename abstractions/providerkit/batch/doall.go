package batch

import "context"

// DoAll runs operations, each by the Batcher that of names, in as few calls as possible, side by side. Those whose error is
// nil have their replies or have failed; the others may still be under way. ctx needs a deadline.
func DoAll[T Operation](ctx context.Context, ops []T, of func(op T) (*Batcher[T], error)) []error {
	errs := make([]error, len(ops))
	if len(ops) == 1 {
		b, err := of(ops[0])
		if err == nil {
			err = b.Do(ctx, ops[0])
		}
		errs[0] = err
		return errs
	}
	parts := split(ctx, ops, errs, of)
	for _, p := range parts {
		p.err = p.batcher.Start(&p.Request)
	}
	for _, p := range parts {
		if p.err == nil {
			p.err = p.await(ctx, p.batcher)
		}
		for _, at := range p.places {
			errs[at] = p.err
		}
	}
	return errs
}

// part is some of several operations, for one call.
type part[T Operation] struct {
	*waiting[T]
	batcher *Batcher[T]
	places  []int
	err     error
}

// split divides operations among calls, in their order.
func split[T Operation](ctx context.Context, ops []T, errs []error, of func(op T) (*Batcher[T], error)) []*part[T] {
	var parts []*part[T]
	open := map[*Batcher[T]]*part[T]{} // that have room
	for at, op := range ops {
		b, err := of(op)
		if errs[at] = err; err != nil {
			continue
		}
		p := open[b]
		if p == nil || len(p.Ops) == MaxOperations {
			room := min(len(ops)-at, MaxOperations)
			p = &part[T]{waiting: newWaiting[T](ctx, room), batcher: b, places: make([]int, 0, room)}
			parts, open[b] = append(parts, p), p
		}
		p.Ops, p.places = append(p.Ops, op), append(p.places, at)
	}
	return parts
}
