// Package httpfence checks fencing tokens of HTTP requests. See package fencing for
// the reason.
//
// [Handler] is middleware for the service: it refuses requests with a stale token.
// [Transport] sends the token of a client's lease, and [CheckResponse] recognizes
// the refusal.
package httpfence
