// Package processes checks exclusion between operating-system processes that
// are killed and paused while they compete for one lease, on a real database.
package processes
