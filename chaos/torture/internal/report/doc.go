// Package report has the verdict on a run: it counts the history, has it checked, and writes the result as text and as a page
// with a timeline. The same record gives the same report.
package report
