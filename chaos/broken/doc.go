// Package broken has deliberately broken providers. They test the tests: the
// conformance suite (abstractions/providertest) and the torture run
// (chaos/torture) must catch each defect. Never use such a provider for real
// leases.
//
//	for _, defect := range broken.All() {
//		provider := defect.Wrap(memlease.New(memlease.Options{}))
//		...
//	}
//
// Each wraps a correct provider and adds one known defect of other lock libraries.
// Defect.Trap is its number in this project's list of such defects (docs/traps.md). A
// wrapper has only the optional abilities that its defect concerns, so that no request
// bypasses the defect. Its state stands for the server's: wrap a provider once, and
// share the wrapper among all contenders.
//
// Trap T50, a chaos wrapper that asks its policy twice, is a defect of a test
// and not of a provider. The test of that trap in package chaos has such a wrapper.
package broken
