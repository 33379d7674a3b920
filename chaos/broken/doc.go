// Package broken has providers that are broken on purpose, to test what tests
// providers: the conformance suite (abstractions/providertest) and the torture
// run (chaos/torture) have to catch each of them. Never use one for leases.
//
//	for _, defect := range broken.All() {
//		provider := defect.Wrap(memlease.New(memlease.Options{}))
//		...
//	}
//
// Each is a wrapper around a provider that works, with one defect that other
// lock libraries have had; Trap is its number in this project's list of those.
// Wrappers have no optional abilities but those that the defect is about, so that all
// requests meet it. What a defect keeps in mind is the server's: wrap a provider once,
// and share the wrapper between those who compete.
//
// A chaos wrapper that asks its policy twice (T50) is no provider that is wrong,
// only a test that is. Package chaos has one in the test of that trap.
package broken
