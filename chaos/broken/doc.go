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
// Each wrapper adds one known defect of other lock libraries to a correct provider. Defect.Trap
// is the defect's number in this project's list of such defects (docs/traps.md). A wrapper has
// only the optional abilities that its defect concerns, so that no request bypasses the defect.
// The wrapper's state stands for the server's state: wrap a provider once, and share the
// wrapper among all contenders.
//
// Trap T50 is missing: a chaos wrapper that applies its policy twice is a defect of a test and not
// of a provider. Package chaos tests that trap with a wrapper of its own.
package broken
