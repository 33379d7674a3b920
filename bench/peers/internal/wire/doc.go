// Package wire counts the commands that a Redis client sends, below the client:
// on its connections. That is the same count for every client library, and one
// that the server can't give: INFO counts what scripts call, too.
package wire
