// Package torture is the short form of the torture run (chaos/torture) on every
// backend, a few seconds each. `make torture` is the long one.
package torture
