// Package suite has the tools of all checks: an [Env] with two clients of one backend, names, time and assertions, and the
// steps that checks have in common, by [Claim]. It knows neither a manager nor a check.
package suite
