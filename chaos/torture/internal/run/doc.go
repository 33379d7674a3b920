// Package run executes a torture run: it starts workers as goroutines or processes, injects the faults of a plan between their
// managers and the backend, disturbs the workers, and records their operations in a history. It checks only facts that are not in
// the history, such as memory and goroutines. A run ends all faults before it stops the workers, closes each client that it
// opened, and waits for its goroutines.
package run
