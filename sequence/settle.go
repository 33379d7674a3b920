package sequence

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Unsettled is a finished result whose commit came too late, or got no answer.
type Unsettled struct {
	Seq     int64  `json:"seq"`
	Op      string `json:"op"`
	Token   int64  `json:"token"`
	Payload []byte `json:"payload"`
}

// The settlements.
const (
	// SettledCommitted: the payload is committed under its number, by this call or before.
	SettledCommitted Settlement = "committed"
	// SettledRecovered: the operation was recovered under a later number: Entry.ReplacedBy.
	SettledRecovered Settlement = "recovered"
	// SettledSaved: the payload is saved as completed work. A cleaner commits the payload. If the
	// cleaner's steps decide on a gap, or fail too often, the cleaner puts the payload into the
	// manual queue.
	SettledSaved Settlement = "saved"
	// SettledQueued: the payload is in the manual queue.
	SettledQueued Settlement = "queued"
	// SettledJournaled: the store could not be reached, and the payload is in the journal of
	// this process: Options.Journal.
	SettledJournaled Settlement = "journaled"
)

// settleRounds limits the number of rounds of Settle, since the number's state may change in each round. A change brings the
// number closer to its final state, so three changes are enough.
const settleRounds = 4

// Settle stores a result that came too late, or whose commit got no answer, in the best place that is still possible. It never
// extends a lease. If the lease still lasts, the payload is committed. If the number is a gap that is not sealed, the payload
// fills the gap. While a recovery is due or under way, or if the commit gets no answer again, the payload is saved as completed
// work. Otherwise the payload goes into the manual queue. write is as in Number.Commit. Settle also returns the number's entry, if
// the entry is known.
func (s *Stream[Tx]) Settle(ctx context.Context, late Unsettled, write Write[Tx]) (Settlement, Entry, error) {
	if write == nil {
		write = s.options.Write
	}
	var cause error // of a commit without an answer
	for range settleRounds {
		e, err := s.store.Find(ctx, s.name, late.Op)
		if errors.Is(err, ErrNotFound) {
			return s.enqueue(ctx, late, Entry{}, "the number is unknown, or forgotten")
		}
		if err != nil {
			return "", e, err
		}
		settled := SettledCommitted
		switch e.State {
		case Committed, Filled:
			if !bytes.Equal(e.Payload, late.Payload) {
				return s.enqueue(ctx, late, e, "the number is committed with another payload")
			}
			return SettledCommitted, e, nil
		case Recovered:
			return SettledRecovered, e, nil
		case Sealed:
			return s.enqueue(ctx, late, e, "the gap is sealed")
		case Gap:
			e, err = s.store.Fill(ctx, FillRequest{Stream: s.name, Seq: e.Seq, Op: late.Op, Payload: late.Payload}, write)
		default:
			if e.Work.Phase == Completed && !bytes.Equal(e.Work.Data, late.Payload) {
				return s.enqueue(ctx, late, e, "other completed work is saved")
			}
			if e.State == Leased && e.Token == late.Token { // its lease may still last
				req := seqstore.CommitRequest{Stream: s.name, Seq: e.Seq, Token: late.Token, Payload: late.Payload, InOrder: s.options.InOrder}
				committed, err := s.store.Commit(ctx, req, write)
				if err == nil {
					return SettledCommitted, committed, nil
				}
				if !errors.Is(err, ErrLate) {
					cause = err
				}
				if cause != nil && isAnswer(cause) {
					return "", e, cause
				}
			}
			settled = SettledSaved
			err = s.store.Save(ctx, seqstore.SaveRequest{Stream: s.name, Seq: e.Seq, Token: late.Token, Work: Work{Phase: Completed, Data: late.Payload}})
		}
		if err == nil {
			return settled, e, nil
		}
		if !errors.Is(err, ErrLate) {
			return settled, e, errors.Join(err, cause)
		}
	}
	return s.enqueue(ctx, late, Entry{}, "the number changed during each attempt")
}

func (s *Stream[Tx]) enqueue(ctx context.Context, late Unsettled, e Entry, reason string) (Settlement, Entry, error) {
	return SettledQueued, e, s.store.Enqueue(ctx, ManualItem{Stream: s.name, Seq: late.Seq, Op: late.Op, Payload: late.Payload, Reason: reason})
}

// Synced is the outcome of a result in the journal.
type Synced struct {
	Unsettled
	Settlement Settlement
}

// Sync settles the stream's results in Options.Journal, from oldest to newest: see Settle. A result stays in the
// journal until the store has accepted the result. Sync stops at the first result that the store does not
// accept, and returns the outcomes of the earlier results. If the journal is damaged it also returns
// a *DamagedError.
func (s *Stream[Tx]) Sync(ctx context.Context) (done []Synced, err error) {
	j := s.options.Journal
	if j == nil {
		return nil, invalid("Options.Journal", nil, "a Journal: open one with OpenJournal")
	}
	for _, r := range j.records(s.name) {
		settled, _, err := s.Settle(ctx, r.Unsettled, nil)
		if err == nil {
			err = j.markSettled(r)
		}
		if err != nil {
			return done, errors.Join(fmt.Errorf("sequence: sync number %d of %q: %w", r.Seq, s.name, err), j.Damaged())
		}
		done = append(done, Synced{r.Unsettled, settled})
	}
	return done, j.Damaged()
}
