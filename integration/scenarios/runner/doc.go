// Package runner runs a scenario: it starts processes of a sample, prints their log records, kills and pauses them, and checks
// the outcome.
//
// A sample with the flag -step logs JSON, and waits for a line of standard input after each record, so that the parent can kill
// or pause it at exactly that point, or let it go on. The end of the input asks the sample to shut down cleanly. The
// environment variables LEASING_URL and LEASING_DATA locate the leases and the data.
package runner
