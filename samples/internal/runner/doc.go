// Package runner runs a scenario: it starts the program again for each worker,
// prints the workers' reports, and kills and pauses workers. Nothing in it is
// about leases, except that it opens a manager for each worker.
//
// A worker reports by lines of JSON on its standard output. A worker that waits
// reads a line from its standard input, so that the parent can kill or
// pause it at exactly that point, or let it go on.
package runner
