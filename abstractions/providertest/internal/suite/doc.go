// Package suite has the tools of all checks: an [Env] with two clients of one backend, names, time and assertions, and the
// steps that checks have in common, as methods of [Claim]. It depends neither on a manager nor on a check.
package suite
