// Package schedule runs a job on a timetable, once for each of its times, although
// many processes run the same code.
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
//  1. At most once: the job is never started twice for a tick, by whichever
//     processes, and whatever their clocks say. A run that fails, crashes or is
//     cut short is not repeated; the next tick is the next chance.
//  2. Not two at a time: the job runs under the lease of the schedule's name.
//     Its context ends before another process can have the lease. A tick that
//     comes while the job still runs, by the clock of the process that runs it,
//     is skipped.
//  3. A tick is started if, while it is current, any process that was up
//     when it came reaches the backend. There are two exceptions: 2, and a process
//     that takes the tick and stops, or is cut off from the backend, before it has
//     started the job, a few requests later.
//
// With Options.AtLeastOnce the first and the last become:
//
//   - At least once: while a tick is current and the job has not returned for it
//     of its own accord, any process that is up starts it again. After a crash that
//     is when the lease of the crashed process has run out. So the job may run more
//     than once for a tick, and must be able to. A tick that comes while the job
//     runs is not skipped but late.
//
// # What is not promised
//
// Exactly once. No lease can promise that: a process may stop between the end
// of its work and the moment in which it says so. The resource that the job writes
// to can promise it, if it stores the tick along with the work: with AtLeastOnce
// the job runs until it has done so, and a second run finds it done. The
// example AtLeastOnce shows it.
//
// That a paused process is stopped. It may wake up in the middle of a run, beside
// the run of the next tick. Pass Tick.Token to what the job writes to: tokens rise
// from run to run, whichever tick they are for. See package fencing.
//
// That missed ticks are made up for. While no process runs the schedule, ticks
// pass. Only with Options.CatchUp does a process that begins start the tick that
// is current.
//
// # How it works
//
// Each process waits for a tick by its own clock, so the clock that is ahead
// of the others starts it. Then it looks for the tick's mark, a lease called
// jobs/daily-maintenance/tick/2026-03-29T00:00:00Z. A lease that was ever held
// has a token, and the backend remembers it after the lease has ended. If there
// is no mark the process takes the schedule's lease, looks again, sets the mark by
// acquiring and releasing that lease, and starts the job if it can still trust
// the schedule's lease. All later processes find the mark. With AtLeastOnce
// the mark is set when the job has returned.
//
// This depends on no clock, but on two things. The lease holds what package
// leasing promises. And the backend remembers the mark for as long as any
// process may ask for it: the retention of the provider (an hour by default) must
// be longer than Options.StartWithin and the difference of the clocks together.
// Where reads may lag (Capabilities.ReadsMayLag) the second look is a Break of the mark, which
// tells the latest token, and ends nothing that is in use.
//
// For a tick the process that runs it sends 6 requests, besides renewals. Each
// other process sends 1 to 4, and a few a minute while a run of the tick before
// goes on. Between ticks nothing is sent, and no lease is held. Where ticks come
// faster than every few seconds, elect a leader instead: package election.
package schedule
