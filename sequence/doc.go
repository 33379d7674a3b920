// Package sequence gives writers that work in parallel one order. A writer leases the
// next number of a stream, works, and commits its result under that number. Readers see
// the numbers in order, and an explanation for each one that has no result.
//
//	ledger, err := sequence.NewStream(store, "ledger", sequence.Options[*sql.Tx]{})
//
//	err = ledger.Do(ctx, sequence.Operation{ID: "transfer-17", Kind: "transfer"},
//		func(ctx context.Context, n *sequence.Number[*sql.Tx]) error {
//			entry, err := compute(ctx) // slow: the lease is renewed meanwhile
//			if err != nil {
//				return err // the number becomes a gap
//			}
//			return n.Commit(ctx, entry, func(ctx context.Context, tx *sql.Tx) error {
//				_, err := tx.ExecContext(ctx, "INSERT INTO ledger ...", n.Seq(), entry)
//				return err
//			})
//		})
//
// # What it promises
//
//   - One order: numbers are issued one after the other, without a hole, and become
//     visible in that order. They are never reused.
//   - One outcome: of a commit, a recovery and a gap exactly one happens to a number,
//     however late, slow or doubled the requests are. State and token decide which, in
//     the store's transaction. Clocks decide only when a number may be claimed.
//   - No silent hole: every number issued has a record until it is sealed and forgotten.
//     A number is committed, recovered as a later one, a gap with a reason, a gap that was
//     filled, or sealed.
//   - No late commit: one that comes after the end of its lease changes nothing, neither
//     the entry nor the caller's own table, and says so in a [LateCommitError].
//   - Nothing changes behind a seal. A reader that stops at the seal sees the same
//     entries on every replay.
//   - A number doesn't block its stream for ever. When its lease has run out, a
//     [Cleaner] claims it, in order, and recovers its work or records a gap.
//   - Every closing wakes those who wait for it.
//
// # What it does not promise
//
//   - Recovered work keeps no place: it is committed under a new, later number. The entry
//     of the old one says which ([Entry].ReplacedBy), and the new one where it came from
//     ([Entry].Origin). Consumers that need causality read Origin.
//   - A reader that goes beyond the seal, up to the watermark, may pass a gap that is
//     filled later. It sees the same order, but not always the same content.
//   - The caller's work outside of the store's transaction may run more than once: after a
//     crash nobody knows how far it came. Write through the transaction that Commit passes.
//   - A lease alone stops nobody. The context of a number ends before it can be claimed, and
//     a process that is paused just then goes on; its commit is refused.
//
// # How it works
//
// A stream is a row with a counter, whose lock makes numbers visible in order. Each number
// has an entry:
//
//	leased ──commit──► committed     recovering ──recovered──► recovered
//	  │ └───release──► gap               ├──gap───────────────► gap ──fill──► filled
//	  └──expiry, claim─► recovering      └──failed, or its claim lapsed: claimed again
//	                                                 gap ──seal──► sealed
//
// Open are leased and recovering entries. The watermark is the highest number with nothing
// open at or below it. Every claim raises the entry's token, which fences the old holder and
// an older cleaner alike. "Expired" is not stored: it is a comparison with the store's clock.
//
// The lease of a number is one of package leasing: [Stream] makes a manager over the store.
// So it has all that leases there have: renewal while the work goes on and while it waits
// its turn, trust counted on both clocks from before each request was sent, a context with a
// cause, events, metrics, spans and logs. See [Options].Lease.
//
// An operation has an ID that the caller chooses. Asking for a number again with the same
// ID gives the same number, so a lost reply costs nothing. An ID whose number is closed is
// refused with an [EndedError].
//
// A lease and its commit are two transactions. A writer that has a page of operations gives them to [Stream.DoAll], where
// the transaction that commits a number leases the next one.
//
// # Late work
//
// [Number.Save] keeps partial or completed work in the store, under the operation. A commit that
// comes too late settles by itself inside [Stream.Do]: it fills the number's gap if that
// is still open, or saves the payload as completed work for the recovery that is under
// way, or puts it in the manual queue. Nothing that was finished is lost without a word.
//
// # Stores
//
// Package sqlsequence keeps streams in PostgreSQL or SQLite, and package memsequence in memory, for tests. Package seqstore has what
// another store implements, and package sequencetest what it must pass.
//
// # Time
//
// A lease's duration is the caller's, or adapts to how long operations of its kind took:
// see [Durations].
package sequence
