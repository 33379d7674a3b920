package torture

import (
	"context"
	"errors"
	"sync"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
)

// register is the resource behind the names: it takes writes, checks their
// tokens, and remembers the order in which it took them.
type register struct {
	fence fencing.Fence

	mu     sync.Mutex
	writes []Write
}

func newRegister(fence fencing.Fence) *register {
	if fence == nil {
		fence = new(fencing.Gates).Do
	}
	return &register{fence: fence}
}

// write asks for one write, and returns its place among all and whether it was
// accepted. Its writer fills the place in as soon as it knows whether it has
// trusted its lease all along.
func (r *register) write(ctx context.Context, name string, token int64) (place int, accepted bool, err error) {
	place = -1
	err = r.fence(ctx, name, token, func(context.Context) error {
		place = r.reserve()
		return nil
	})
	if errors.Is(err, leasing.ErrStale) {
		return r.reserve(), false, nil
	}
	if err == nil && place < 0 {
		err = errors.New("torture: Options.Fence has neither written nor refused to")
	}
	return place, err == nil, err
}

// reserve takes the next place in the order of writes.
func (r *register) reserve() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, Write{Worker: -1})
	return len(r.writes) - 1
}

// fill says what the write at a place was.
func (r *register) fill(place int, w Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes[place] = w
}

// history is all writes that were filled in, in order.
func (r *register) history() []Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	var writes []Write
	for _, w := range r.writes {
		if w.Worker >= 0 {
			writes = append(writes, w)
		}
	}
	return writes
}
