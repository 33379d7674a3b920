// Package usage reads what this process has used: CPU time and memory.
package usage
