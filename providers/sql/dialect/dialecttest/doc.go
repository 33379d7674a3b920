// Package dialecttest has the tests that all dialects of module providers/sql share, and helpers for the tests of a dialect. It is
// for dialects, not for applications.
package dialecttest
