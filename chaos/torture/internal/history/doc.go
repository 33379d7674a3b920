// Package history defines the record of a torture run: each request and its reply, the holds, writes and waits of the workers,
// the events of their observers, and the faults. Entries come from several goroutines and processes in any order. A history is
// sorted, and names claims by their worker and number, so that the same run has the same history.
package history
