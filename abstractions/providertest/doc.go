// Package providertest is the conformance suite of leasing providers. It sends random
// requests and compares answers and records with the rules of package providerkit, which
// are the contract in executable form. Separate checks cover what the rules do not:
// concurrency, contexts, closing, waiting, limits, time, the optional abilities, and those known defects of other
// libraries that a provider could share. Checks for such defects are named Trap_T13_..., after the entry in
// docs/traps.md. Checks named Manager_... put a manager of package leasing over the provider, with a wrapper between
// them that loses, delays and repeats requests: the promises to applications must hold with this provider.
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
// The machine that runs the suite may stall at any point, so its assertions
// about time hold however long a call takes. A contender's acquire must not
// return within the TTL after the holder's acquire was sent. An acquire that
// is sent later than TTL plus Capabilities.Lateness after the holder's acquire
// returned must not be refused. The tolerance for different clocks is a
// thousandth of the TTL plus 2 ms, or 0 in virtual time.
//
// Real servers are tested in real time, with the shortest leases that they support.
// Checks that wait for leases to run out all run concurrently; of the other checks only a few run at a time. A provider
// that uses no sockets or files runs in virtual time ([Harness].Virtual). If the clock of a backend can be moved, set
// Harness.Advance. The checks Manager_RealTime_... run in real and in virtual time. A check that fails while timers are
// late is repeated. A table in docs/proof.md lists the checks for each promise. The other checks of the manager need
// virtual time, in which times are exact. On a server each of them is a skipped subtest, like each check that needs a
// field which the harness does not set, or an ability which the provider lacks.
//
// # Beside the suite
//
// Packages faulttest, credentialtest and recordstest have checks for tests that start servers, hold secrets, or use
// cas.Records.
package providertest
