// Package run makes a torture run: it starts workers as goroutines or processes, injects the faults of a plan between their
// managers and the backend, disturbs them, and records what they see. It judges only what no history shows, such as memory and
// goroutines. A run ends all faults before it stops the workers, closes each client that it opened, and waits for its goroutines.
package run
