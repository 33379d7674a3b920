// Package leasingtest helps to test code that holds leases. It makes real
// managers over an in-process provider whose answers the test scripts, and it
// makes a lease end on command.
//
//	func TestStopsWhenTheLeaseIsLost(t *testing.T) {
//		manager, provider := leasingtest.NewManager(t, leasing.Options{})
//		lease, err := manager.Acquire(t.Context(), "jobs/report", nil)
//		...
//		leasingtest.Lose(t, provider, lease, leasing.LostTaken)
//		<-lease.Done() // and now: does the work stop?
//	}
//
// Renewal, waiting, events and shutdown are the library's own code and behave as
// in production. Inside a testing/synctest bubble all of it runs in virtual time:
// a lease of an hour expires at once.
package leasingtest
