package sequence

import (
	"context"
	"fmt"
	"iter"

	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Reader reads a stream in order, with an entry for every number: results, and for the others
// why there is none. It is safe for concurrent use.
type Reader struct {
	// Records is the store.
	Records Records
	Stream  string
	// Sealed makes the Reader stop at the seal, so that every replay sees the same. Without it
	// the Reader reads up to the watermark, and a gap that it has read may be filled later.
	Sealed bool
	// Page is how many entries are read at a time. Default 256.
	Page int
}

// Read iterates over the entries from a number on, up to the watermark or the seal as they are when the
// loop gets there. It ends at the first error.
func (r Reader) Read(ctx context.Context, from int64) iter.Seq2[Entry, error] {
	return r.iterate(ctx, from, false)
}

// Follow iterates like Read, and then waits for more entries, until ctx ends; its last error is then
// the cause of ctx. An error of the store ends it, too. To continue, call it again from the number
// after the last entry.
func (r Reader) Follow(ctx context.Context, from int64) iter.Seq2[Entry, error] {
	return r.iterate(ctx, from, true)
}

func (r Reader) iterate(ctx context.Context, from int64, follow bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		first := max(from, 1)
		for next := first; ; {
			page, err := r.page(ctx, next)
			if err == nil && follow && len(page.Entries) == 0 {
				err = await(ctx, r.Records, r.Stream, func(ctx context.Context) (bool, error) {
					page, err = r.page(ctx, next)
					return len(page.Entries) > 0, err
				})
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if e.Seq > next && next > first { // what is below the first may be forgotten
					yield(Entry{}, fmt.Errorf("sequence: read %q: number %d is missing before %d: %w", r.Stream, next, e.Seq, ErrNotFound))
					return
				}
				if !yield(e, nil) {
					return
				}
				next = e.Seq + 1
			}
			if !follow && next > page.Through || len(page.Entries) == 0 {
				return
			}
		}
	}
}

func (r Reader) page(ctx context.Context, from int64) (seqstore.Page, error) {
	limit := r.Page
	if limit <= 0 {
		limit = 256
	}
	return r.Records.Read(ctx, seqstore.ReadRequest{Stream: r.Stream, From: from, Limit: limit, Sealed: r.Sealed})
}

// Gaps returns up to limit gaps from a number on that may still be filled.
func (r Reader) Gaps(ctx context.Context, from int64, limit int) ([]Entry, error) {
	page, err := r.Records.Read(ctx, seqstore.ReadRequest{Stream: r.Stream, From: from, Limit: limit, States: []State{Gap}})
	return page.Entries, err
}
