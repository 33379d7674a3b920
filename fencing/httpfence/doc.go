// Package httpfence checks fencing tokens of HTTP requests: see package fencing for
// why.
//
// [Handler] is middleware of the service: it answers requests with a stale token
// itself. [Transport] sends the token of a client's lease, and [CheckResponse]
// knows the refusal.
package httpfence
