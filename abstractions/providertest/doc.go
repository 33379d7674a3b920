// Package providertest is the conformance suite of leasing providers. It sends random
// requests and compares answers and records with the rules of package providerkit, which
// are the contract in executable form. Checks of their own are for what rules don't
// tell: concurrency, contexts, closing, waiting, limits, time, the optional abilities,
// and each known defect of other libraries that a provider can have on its own (those
// are named Trap_T13_..., after the entry in the project's list). Those named Manager_...
// put a manager of package leasing over the provider, and a line between the two that
// loses, delays and repeats what passes: what applications are promised has to be true
// with this provider.
//
// A provider's own test says how to open it and little more:
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, providertest.Harness{
//			New: func(t testing.TB) leasing.Provider {
//				provider, err := mylease.Open(t.Context(), mylease.Options{URL: serverURL})
//				require.NoError(t, err)
//				return provider
//			},
//		})
//	}
//
// # Time
//
// The suite runs on a machine that may stall at any point. What it asserts
// about time is true however long a call takes: a contender's acquire must not
// have *returned* within the TTL after the holder's was *sent*, and one that
// was *sent* later than TTL plus Capabilities.Lateness after the holder's had
// *returned* must not be refused. A thousandth of the TTL and two milliseconds
// are allowed for clocks that disagree; in virtual time nothing is.
//
// Real servers are run with real time and the shortest leases that they
// support. Those checks that wait for leases to run out wait together, beside
// the others, of which a few run at a time. A provider without
// sockets and files runs in virtual time ([Harness].Virtual), and one whose
// backend has a clock that can be moved says so ([Harness].Advance). Most checks of the
// manager need virtual time, in which every moment is exact.
//
// # On servers of their own
//
// [LeasesEndInTime] and [LossIsTold] are for tests that start servers, with package
// servertest, and kill, pause or cut them off. A [Wire] is between a client and its HTTP
// server.
package providertest
