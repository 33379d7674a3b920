// Package providerkit is what all providers of leasing share. It is for authors
// of providers; an application never imports it.
//
// # What it promises
//
// A provider is a small [Driver] in a [Provider]. The Provider owns all that does
// not depend on the backend:
//
//   - It validates each request, gives each context a deadline, and refuses calls
//     after Close with ErrClosed. An item of a batch that can't work gets an error
//     of its own, and the others are sent.
//   - A call whose context has ended already touches nothing, and says so.
//   - A call whose context ends under way returns an error that matches
//     ErrUnavailable and the context's Err. The context's cause is in its text
//     alone: it may be an error of another lease.
//   - The driver's errors get their meaning by one table: see [Meaning]. An error
//     is "not applied" only if the driver knows that. See [NotSent],
//     [MarkNotApplied] and [Partial].
//   - Close ends by itself, and names what it could not wait for. With
//     [Config.Detach] a call ends with its context even if the client library
//     heeds none.
//
// Options are a plain struct. Its tags say how each field is written in JSON and
// in the query of a URL, what bounds it has, and whether it is a secret: see
// [Complete], [UnmarshalJSON] and [SetQuery]. No print, log, JSON or error shows a
// secret. [ParseURL] takes a URL apart and finds passwords that were not escaped.
//
// [Records] are the verbs over a store that can compare and set, alone or beside
// [Leases] that a service has itself. Supply four methods, and have a provider.
//
// The rules of a record are [Record.Acquire], Renew, Release and Break: pure
// functions of what is stored, a request and the backend's clock. [Ended] is the
// memory of the claims that were given up.
//
// [Naming] turns names of leases into names that a store accepts, injectively.
// [Wakeups] hands pushed hints to waiters, over one connection that it keeps. Package
// batch sends requests together that are made at the same time, and package waitqueue
// knows who waits in a backend's queues. Requests over a [Transport] harm no others when
// they are given up, as those over Go's own do.
//
// # What it does not promise
//
// It makes no request atomic: mutual exclusion is the driver's. It retries
// nothing, logs nothing and measures nothing: package leasing does. It can't end a
// call that hangs in a client library; it can only stop waiting for it.
//
// # How a provider uses it
//
// Package folderlease (providers/file) is the worked example. Its type Provider embeds this
// package's Provider, under another name so that the field is not exported. Options
// have tags, and the methods Format, MarshalJSON and UnmarshalJSON where they hold
// secrets, each a line that calls the function of that name here.
//
// All providers spell these alike: "create" lets Open or the first call create
// what is missing at the backend, "timeout" bounds a call without a deadline,
// "retention" is how long a name is remembered after its last lease, "prefix"
// begins the names of all records.
package providerkit
