// Package netfault checks leases over a real network that fails (chaos/netfault),
// on each kind of server: what the promises look like from below the client library.
package netfault
