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
	done := make(chan *Request[T], len(parts))
	open := make(map[*Request[T]]*part[T], len(parts))
	for _, p := range parts {
		p.Done = done
		if err := p.batcher.Start(&p.Request); err != nil {
			p.all(errs, err)
			continue
		}
		open[&p.Request] = p
	}
	for len(open) > 0 {
		select {
		case r := <-done:
			delete(open, r)
		case <-ctx.Done():
			for r, p := range open {
				p.all(errs, left(ctx, p.batcher.withdraw(r)))
			}
			for range len(done) { // replies that are there
				open[<-done].all(errs, nil)
			}
			return errs
		}
	}
	return errs
}

// part is some of several operations, for one call.
type part[T Operation] struct {
	Request[T]
	batcher *Batcher[T]
	places  []int
}

// all sets the errors of its operations.
func (p *part[T]) all(errs []error, err error) {
	for _, at := range p.places {
		errs[at] = err
	}
}

// split divides operations among calls, in their order.
func split[T Operation](ctx context.Context, ops []T, errs []error, of func(op T) (*Batcher[T], error)) []*part[T] {
	by, _ := ctx.Deadline()
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
			p = &part[T]{batcher: b, places: make([]int, 0, room)}
			p.Request = Request[T]{Ops: make([]T, 0, room), Context: ctx, By: by}
			parts, open[b] = append(parts, p), p
		}
		p.Ops, p.places = append(p.Ops, op), append(p.places, at)
	}
	return parts
}
