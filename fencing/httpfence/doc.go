// Package httpfence checks fencing tokens of HTTP requests: see package fencing for
// why.
//
// [Handler] is middleware for the service: it refuses requests with a stale token.
// [Transport] sends the token of a client's lease, and [CheckResponse] recognizes
// the refusal.
package httpfence
