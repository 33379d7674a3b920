// Package show plays a sample: it starts the sample's program again for each
// worker, listens to what the workers report, kills and pauses them, and prints
// a timeline. Nothing in it is about leases.
//
// A worker reports by lines of JSON on its standard output. At a cue it reports
// and then waits for a line on its standard input, so that the play can kill or
// pause it at exactly that point, or let it go on.
package show
