// Package engine is the manager behind package leasing. It joins the packages of the core, and adds locks, contexts,
// goroutines, the lists of leases and clean-ups, and Close.
//
//	lifecycle   makes the decisions about one lease, as pure functions of an input and an instant
//	waiting     makes the decisions about the waiters of one name, in the same way
//	trust       instants on two clocks, and the time for which a grant is trusted
//	timetable   calls leases and clean-ups when they are due
//	dispatch    sends requests, alone or in batches, limits their time and number, and recovers panics
//	notify      delivers events to observers
//	instrument  metrics and spans
//
// None of these packages imports the engine or holds the manager: each is given the functions that it needs.
//
// A lease serializes the inputs to its lifecycle.Lease with a lock, and apply carries out the effects. No code of an application
// or a provider runs under a lock: functions that a user has registered with context.AfterFunc run in goroutines of their own.
package engine
