// Package leasingtest helps to test code that holds leases. It has two kinds of managers.
//
// A [Fake] is for unit tests: it has no clock and no renewals. The test takes names, and ends leases by name,
// even inside Do, where the test has no lease at hand.
//
//	func TestStopsWhenTheLeaseIsLost(t *testing.T) {
//		fake := leasingtest.NewFake("worker-1")
//		go work(t.Context(), fake.Manager()) // acquires "jobs/report"
//		...
//		fake.Lose("jobs/report", leasing.LostTaken) // now check that the work stops
//	}
//
// [NewManager] makes a real manager over a provider in memory, whose answers the test scripts: requests fail, hang, or
// take effect without a reply. Renewal, waiting, events and shutdown are the library's own code and behave as
// in production. Inside a testing/synctest bubble all of it runs in virtual time: a lease of an hour expires at once.
//
//	manager, provider := leasingtest.NewManager(t, leasing.Options{})
//	provider.Use(leasingtest.LoseReply(leasingtest.Acquire, 1, leasing.ErrUnavailable))
//	lease, err := manager.Acquire(t.Context(), "jobs/report")
package leasingtest
