// Package descendants finds the descendants of a process.
package descendants
