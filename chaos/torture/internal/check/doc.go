// Package check compares the history of a run with the promises of package leasing. Its checks are pure functions of a history
// and a few limits: they read no clock, start no goroutine, and depend on no provider. A check may miss a defect, but a
// violation that it reports has no explanation in which all promises were kept. The documentation of package torture lists the
// checks.
package check
