package sequence

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Reader reads a stream in order, with an entry for every number: a result, or the reason why there
// is no result. It is safe for concurrent use.
type Reader struct {
	// Records is the store.
	Records Records
	Stream  string
	// Sealed makes the Reader stop at the seal, so that every replay sees the same entries. Without
	// Sealed the Reader reads up to the watermark, and a gap that it has read may be filled later.
	Sealed bool
	// After, unless "", is the Mark of the last entry that was read: the entry before the number from which Read or Follow
	// continues. A reader that stores the Mark with its place gets an error if the stream has begun another epoch since
	// then: see Store.NewEpoch. The Mark also reveals most restores of a backup without a new epoch.
	After string
	// Page is the number of entries that are read at a time. Default 256.
	Page int
}

// Read iterates over the entries from a number on, up to the watermark or the seal, which is read with
// each page. If from is 1 or 0, it begins with the first kept entry. It ends at the first error.
//
// The error is a *CheckpointError, which matches ErrCheckpoint, if the reader can't continue from a number without skipping
// results: entries from that number on are forgotten, the number lies beyond the next number of the stream, or the entry before
// the number is neither the entry of After nor the last entry of this loop. In the last case the stream differs from the stream
// that was read before.
func (r Reader) Read(ctx context.Context, from int64) iter.Seq2[Entry, error] {
	return r.iterate(ctx, from, false)
}

// Follow iterates like Read, and then waits for more entries, until ctx ends; its last error is then
// the cause of ctx. An error from the store also ends the iteration. To continue, call Follow from the number after the last
// entry.
func (r Reader) Follow(ctx context.Context, from int64) iter.Seq2[Entry, error] {
	return r.iterate(ctx, from, true)
}

func (r Reader) iterate(ctx context.Context, from int64, follow bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		after := r.After
		for next := max(from, 1); ; {
			page, err := r.page(ctx, next, after)
			if err == nil && follow && len(page.Entries) == 0 {
				err = await(ctx, r.Records, r.Stream, func(ctx context.Context) (bool, error) {
					page, err = r.page(ctx, next, after)
					return len(page.Entries) > 0, err
				})
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for i, e := range page.Entries {
				if e.Seq > next && i > 0 {
					yield(Entry{}, fmt.Errorf("sequence: read %q: number %d is missing before %d: %w", r.Stream, next, e.Seq, ErrNotFound))
					return
				}
				if !yield(e, nil) {
					return
				}
				next = e.Seq + 1
			}
			if len(page.Entries) > 0 {
				after = page.Entries[len(page.Entries)-1].Mark()
			}
			if !follow && next > page.Through || len(page.Entries) == 0 {
				return
			}
		}
	}
}

// page reads entries from next on. The first is next, or the first kept entry if next is 1. after is the mark of the entry
// before next, if that entry was read.
func (r Reader) page(ctx context.Context, next int64, after string) (seqstore.Page, error) {
	limit := r.Page
	if limit <= 0 {
		limit = 256
	}
	page, err := r.Records.Read(ctx, seqstore.ReadRequest{Stream: r.Stream, From: next, Limit: limit, Sealed: r.Sealed})
	if err != nil {
		return page, err
	}
	outside := func(format string, args ...any) (seqstore.Page, error) {
		return seqstore.Page{}, &CheckpointError{Stream: r.Stream, From: next, Why: fmt.Sprintf(format, args...)}
	}
	switch {
	case next > page.Last+1:
		return outside("the last number that was issued is %d, as after the restore of a backup", page.Last)
	case after != "" && epochOf(after) != page.Epoch:
		return outside("the stream is in another epoch, as after the restore of a backup")
	case after != "" && page.Before != "" && page.Before != after:
		return outside("number %d has an entry other than the one that was read, as after the restore of a backup", next-1)
	case next > 1 && len(page.Entries) > 0 && page.Entries[0].Seq != next:
		return outside("the numbers up to %d are forgotten", page.Entries[0].Seq-1)
	case next > 1 && len(page.Entries) == 0 && next <= page.Through:
		return outside("the numbers up to %d are forgotten", page.Through)
	}
	return page, nil
}

// epochOf returns the epoch of a mark, whose parts are the number, the epoch and a digest.
func epochOf(mark string) string {
	_, rest, _ := strings.Cut(mark, "-")
	return rest[:max(strings.LastIndex(rest, "-"), 0)]
}

// Gaps returns up to limit gaps that may still be filled, from a number on.
func (r Reader) Gaps(ctx context.Context, from int64, limit int) ([]Entry, error) {
	page, err := r.Records.Read(ctx, seqstore.ReadRequest{Stream: r.Stream, From: from, Limit: limit, States: []State{Gap}})
	return page.Entries, err
}
