// Package report reports the result of a run: it summarizes and checks the history, and writes the result as text and as a
// page with a timeline. The same record gives the same report.
package report
