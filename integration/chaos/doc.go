// Package chaos runs the conformance suite over each provider with the chaos
// wrapper around it. The wrapper's module knows no driver, so this lives here.
//
// A provider is added to the list in conformance_test.go.
package chaos
