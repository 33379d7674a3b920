// Package schedule runs a job on a timetable: once for each of its times,
// although many processes run the same code.
//
//	err := schedule.Run(ctx, manager, schedule.Options{
//		Name:    "jobs/daily-maintenance",
//		Every:   24 * time.Hour, // or Next: see there for cron
//		OnError: func(tick time.Time, err error) { slog.Error("maintenance", "tick", tick, "error", err) },
//	}, func(ctx context.Context, tick schedule.Tick) error {
//		return maintain(ctx, tick.Token()) // until ctx ends at the latest
//	})
//
// # What is promised
//
// The times of the timetable are its ticks. A tick is current until the next
// one comes, but at most for Options.StartWithin.
//
//  1. At most once: for no tick is the job started twice, by whichever
//     processes, whatever their clocks say. A run that fails, crashes or is cut
//     short is not repeated; the next tick is the next chance.
//  2. Not two at a time: the job runs under the lease of the schedule's name.
//     Its context ends before somebody else can have the lease. A tick that
//     comes while the job still runs, by the clock of the process that runs it,
//     is skipped.
//  3. A tick is started if, while it is current, any process that was there
//     when it came reaches the backend; except as said in 2, and if a process
//     takes the tick and stops, or is cut off from the backend, before it has
//     started the job, a few requests later.
//
// With Options.AtLeastOnce the first and the last become:
//
//   - At least once: while a tick is current and the job has not returned for it
//     of its own accord, it is started again by whichever process is up: after a
//     crash when the lease of the crashed one has run out. So it may run more
//     than once for a tick, and must be able to. A tick that comes while the job
//     runs is not skipped but late.
//
// # What is not
//
// Exactly once. No lease can promise that: a process may stop between the end
// of its work and the moment in which it says so. What can is the resource that
// the job writes to, if it stores the tick along with the work: with AtLeastOnce
// the job then runs until it has done so, and a second run finds it done. The
// example AtLeastOnce shows it.
//
// That a process which is paused is stopped. It may wake up in the middle of a
// run that others have given up on, beside the next tick's run. Hand Tick.Token
// to what the job writes to: tokens rise from run to run, whichever tick they
// are for. See package fencing.
//
// That ticks which nobody saw are made up for. While no process runs the
// schedule, ticks pass, except that with Options.CatchUp a process that begins
// starts the one that is current.
//
// # How it works
//
// Each process waits for a tick by its own clock; so the clock that is ahead
// of the others starts it. Then it looks for the tick's mark, a lease called
// jobs/daily-maintenance/tick/2026-03-29T00:00:00Z: one that has ever been held
// has a token, and the backend remembers it after the lease has ended. If there
// is none the process takes the schedule's lease, looks again, sets the mark by
// acquiring and releasing that lease, and starts the job if it can still trust
// the schedule's lease. So whoever comes later finds the mark. With AtLeastOnce
// the mark is set when the job has returned.
//
// This depends on no clock, but on two things. The lease holds what package
// leasing promises. And the backend remembers the mark for as long as any
// process may ask for it: the retention of the provider (an hour in memory, a
// day in SQL) must be longer than Options.StartWithin and the difference of the
// clocks together.
//
// For a tick the process that runs it sends 6 requests, besides renewals; each
// other process 1 to 4, and a few a minute while a run of the tick before goes
// on. Nothing is sent, and no lease is held, between ticks. Where ticks come
// faster than every few seconds, elect a leader instead: package election.
package schedule
