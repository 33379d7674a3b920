// Package providerkit has the code that all providers of leasing share. It is
// for authors of providers; applications never import this package.
//
// # What it promises
//
// A provider is a small [Driver] inside a [Provider]. The Provider does
// everything that does not depend on the backend:
//
//   - It validates each request, gives each context a deadline, and refuses calls
//     after Close with ErrClosed. An invalid item of a batch gets its own error,
//     and the others are sent.
//   - A call whose context has already ended sends nothing and returns an error that
//     matches the context's Err.
//   - A call whose context ends while it is in flight returns an error that
//     matches ErrUnavailable and the context's Err. The context's cause
//     appears only in its text, since it may be an error from another lease.
//   - The driver classifies its errors: see [Meaning]. An error is marked as not
//     applied only if the driver knows that the request was not applied. See
//     [NotSent], [MarkNotApplied] and [Partial].
//   - Close returns within a time limit, and its error gives the number of calls that it did not
//     wait for. With [Config.Detach] a call ends with its context even if the client library
//     ignores contexts.
//
// Options are a plain struct. Its tags say how each field is written in JSON and
// in the query of a URL, what bounds it has, and whether it is a secret: see
// [Complete], [UnmarshalJSON] and [SetQuery]. No print, log, JSON or error shows a
// secret. [ParseURL] parses a URL and detects passwords that were not escaped.
//
// The rules of a record are [Record.Acquire], Renew, Release and Break: pure
// functions of the stored record, a request and the backend's clock. [Ended] is the
// list of ended claims that a name refuses.
//
// Each other package of the kit has one subject:
//
//   - cas makes a provider from a store with compare-and-set, alone or together with
//     a service's own leases. A Store has four methods.
//   - wakeup delivers pushed wake-ups to waiters, over one connection that it maintains,
//     and waitqueue manages the waiters in a backend's queues.
//   - batch combines concurrent requests, httpguard has the HTTP client of providers
//     that speak HTTP, netdial the dialer of the others, and livefile reads files of
//     credentials that change.
//   - disk and hostclock are for stores that the processes of one host share.
//
// [Intercept] wraps a provider, to see or change its calls, and [Lend] implements the method As of a
// wrapper.
//
// # What it does not promise
//
// It does not make requests atomic: mutual exclusion is the driver's responsibility.
// It does not retry, log or measure, which are tasks of package leasing. It can't
// end a call that hangs in a client library; it can only stop waiting for the call.
//
// # How a provider uses it
//
// Package filelease (providers/file) is the worked example. Its type Provider embeds this
// package's Provider, under another name so that the field is not exported. Options have
// tags and, if they hold secrets, the methods Format, MarshalJSON and UnmarshalJSON. Each
// method is one line that calls the function of the same name in this package.
//
// All providers use the same names for these options: "create" lets Open or
// the first call create what is missing at the backend, "timeout" bounds a
// call without a deadline, "retention" is the time for which a name is remembered
// after its last lease, "prefix" begins the names of all records.
package providerkit
