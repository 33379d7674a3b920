// Package report summarizes and checks the history of a run, and writes the result as text and as an HTML page with a
// timeline. The same record always produces the same report.
package report
