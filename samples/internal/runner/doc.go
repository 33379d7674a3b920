// Package runner runs a scenario: it starts the program again for each worker,
// prints what the workers report, and kills and pauses them. Nothing in it is
// about leases, but that it opens a manager for each worker.
//
// A worker reports by lines of JSON on its standard output. A worker that waits
// reads a line from its standard input, so that the parent can kill or
// pause it at exactly that point, or let it go on.
package runner
