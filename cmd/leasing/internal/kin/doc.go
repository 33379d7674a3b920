// Package kin finds the descendants of a process.
package kin
