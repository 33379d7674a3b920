// Package sequence gives the results of parallel writers one total order. A writer
// leases the next number of a stream, works, and commits its result under that number.
// Readers see the numbers in order, and the reason for each number without a result.
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
//   - One order: numbers are issued consecutively, become visible in that order,
//     and are never reused.
//   - One outcome: a number is committed, recovered, or a gap, and never two of these, even if
//     requests are late, slow or duplicated. State and token decide which, in the store's
//     transaction. Clocks decide only when a number may be claimed for recovery.
//   - No silent hole: every issued number has a record until it is sealed and forgotten.
//     The record says that it is committed, recovered under a later number, a gap with a
//     reason, a filled gap, or sealed.
//   - No late commit: a commit after the end of its lease changes neither the entry nor the caller's own tables, and returns a
//     [LateCommitError].
//   - Nothing changes behind a seal. A reader that stops at the seal sees the same
//     entries on every replay.
//   - No number blocks its stream forever. A [Cleaner] claims the numbers whose leases have run out, in order, and recovers their
//     work or records gaps. A process that is paused or cut off during its write does not block its number, if the database can
//     detect the pause: see package sqlsequence about SQLite.
//   - If the database refuses a transaction, for instance at COMMIT, a writer gets a [RefusedError], and a cleaner counts a
//     failed attempt. A cleaner also counts a panic in a callback as a failed attempt.
//   - Closing a number wakes its waiters.
//
// # What it does not promise
//
//   - Recovered work does not keep its position: it is committed under a new, later
//     number. The old entry refers to the new one ([Entry].ReplacedBy), and the new entry
//     to the old one (Entry.Origin). Consumers that need causality must read Origin.
//   - A reader that reads past the seal, up to the watermark, may see a gap that is
//     filled later. On a replay it sees the same order, but perhaps other content.
//   - Work outside of the store's transaction may run more than once, since its progress before a
//     crash is not recorded. Write through the transaction that Commit passes.
//   - A lease does not stop a paused process. The context of a number ends before the number can be
//     claimed, but a process that is paused at that moment continues its work when it resumes. Its
//     commit is then refused.
//
// # How it works
//
// A stream is a row with a counter. The row's lock makes numbers visible in order. Each number has an entry:
//
//	leased ──commit──► committed     recovering ──recovered──► recovered
//	  │ └───release──► gap               ├──gap───────────────► gap ──fill──► filled
//	  └──expiry, claim─► recovering      └──failed, its claim lapsed, or
//	                                        completed work came: claimed again
//	                                                 gap ──seal──► sealed
//
// Leased and recovering entries are open. The watermark is the highest number such that no
// entry at or below it is open. Every claim raises the entry's token, which fences off the
// old holder and any older cleaner. "Expired" is not a stored state, but a comparison with
// the store's clock.
//
// The lease of a number is a lease of package leasing, for which [Stream] makes a manager
// over the store. So a number has all features of a lease: renewal during the work and during the
// wait for lower numbers, the same rules of trust, a context with a cause, events, metrics, spans
// and logs. See [Options].Lease.
//
// An operation has an ID that the caller chooses. Leasing again with the same ID returns
// the same number, so a lost reply does no harm. An ID whose number is closed is refused
// with an [EndedError].
//
// A lease and its commit are two transactions. For a batch of operations use [Stream.DoAll], which leases the next
// number in the transaction that commits a number.
//
// # Late work
//
// [Number.Save] stores partial or completed work under the operation. [Stream.Do] settles a late
// commit automatically: it fills the number's gap if that is not sealed, or saves the payload as
// completed work for the recovery in progress, or puts it into the manual queue. Saving completed
// work ends the claim of a cleaner that has not seen the work. A number with completed work does
// not become a gap when it is released. A cleaner that decides on a gap despite completed work puts
// the work into the manual queue. So no finished result is lost silently.
//
// # Stores
//
// Package sqlsequence keeps streams in PostgreSQL or SQLite, and package memsequence in memory, for tests. Package seqstore defines
// the interface of a store, and package sequencetest tests a store.
//
// # Time
//
// The caller sets the duration of a lease, or [Durations] derives it from the time that earlier
// operations of the same kind took.
package sequence
