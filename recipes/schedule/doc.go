// Package schedule runs a job on a timetable, once per scheduled time, although
// many processes run the same schedule.
//
//	err := schedule.Run(ctx, manager, schedule.Options{
//		Name:    "jobs/daily-maintenance",
//		Every:   24 * time.Hour, // for cron: see Options.Next
//		OnError: func(tick time.Time, err error) { slog.Error("maintenance", "tick", tick, "error", err) },
//	}, func(ctx context.Context, tick schedule.Tick) error {
//		return maintain(ctx, tick.Token()) // until ctx ends at the latest
//	})
//
// # What is promised
//
// The scheduled times are called ticks. A tick is current until the next one
// comes, but at most for Options.StartWithin.
//
//  1. At most once: the job is never started twice for a tick, whichever processes
//     try, if their clocks differ by at most an hour. (On a backend whose longest
//     TTL is less than 2 h: by at most half of that TTL, which is 30 s on Azure
//     Blob.) A run that fails, crashes or is cancelled is not repeated; the job runs
//     again at the next tick.
//  2. One run at a time: the job runs under the lease of the schedule's name.
//     Its context ends before another process can have the lease. A tick that
//     comes while the job is still running, by the clock of the process that
//     runs it, is skipped.
//  3. The job is started for a tick if any process that was up when the tick came reaches the
//     backend while the tick is current. There are two exceptions: the tick is skipped as in 2, or
//     the process that takes it dies or loses the backend in the few requests before it starts the
//     job.
//
// Options.AtLeastOnce replaces 1 and 3 with:
//
//   - At least once: while a tick is current and no run for it has returned of its
//     own accord, each running process tries to repeat the job. After a crash this
//     succeeds when the crashed process's lease has expired. So the job must
//     tolerate more than one run per tick. A tick that comes while the job is
//     running is delayed, not skipped.
//
// # What is not promised
//
// Exactly once is not promised. No lease can promise that, since a process may die
// between the end of its work and the report of that end. The resource that the job writes to can
// promise it, if it stores the tick in the same transaction as the work: with AtLeastOnce the job
// is repeated until the tick is stored, and a second run finds the tick. See the example
// AtLeastOnce.
//
// A paused process is not stopped. It may resume in the middle of a run, during
// the run of the next tick. Pass Tick.Token to the resources that the job writes
// to: tokens rise from run to run. See package fencing.
//
// On the day of a clock change, a time of day may be skipped, or may come twice. If clocks go from 02:00 to
// 03:00, 02:30 does not come; if they go back, it comes twice. The cron library decides how often the job runs
// on that day: never, once or twice. Libraries differ. Around clock changes some libraries also contradict themselves: these
// irregular ticks are reported to Options.OnError as an [OddTickError], and the schedule goes on. A timetable in UTC is not
// affected.
//
// Missed ticks are not made up for: ticks that come while no process runs the schedule are lost. Only with Options.CatchUp does a
// starting process take the tick that is current.
//
// # How it works
//
// Each process waits for a tick by its own clock, so the process whose clock is ahead
// begins. It looks for the tick's mark, a lease named
// jobs/daily-maintenance/tick/2026-03-29T00:00:00Z. If that name has no token, there is
// no mark yet. The process then acquires the schedule's lease, looks again, sets the mark by
// acquiring the lease of that name, and starts the job if it can still trust the schedule's lease.
// All later processes find the mark. With AtLeastOnce the mark is set when the job has returned.
//
// The name of the mark stays taken (AcquireOptions.AtLeast) for the rest of Options.StartWithin plus
// an hour, to allow for differences between clocks. So the mark outlasts its process, and does not
// depend on how long the provider remembers a released name. In lists and in the console, marks
// appear as held leases without renewals.
//
// The lease must keep the promises of package leasing. Where reads may lag
// (Capabilities.ReadsMayLag) the second look is a Break of the mark, which returns the
// latest token and frees no name early.
//
// Per tick the process that runs the job sends 5 requests, besides renewals.
// Every other process sends 1 to 4, and a few per minute while the previous
// tick's run continues. Between ticks nothing is sent, and no lease is held. If
// ticks are only seconds apart, elect a leader instead: package election.
package schedule
