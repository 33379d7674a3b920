// Package abstractions is the contract between package leasing and its
// backends. Applications import package leasing, which has all they need;
// this package is for authors of providers.
//
// A [Provider] makes single attempts. Everything with a timer, a retry or a
// metric is written once, in package leasing, above it. The comments of
// Provider and of the request types are the contract, and package providertest
// checks it. Package providerkit has what providers share:
// validation, bounds, errors, configuration, the rules of a record.
//
// Optional abilities ([BatchRenewer], [Waiter], [WaiterLister], [Lister],
// [Pinger], [HistoryReader]) are interfaces of one method. Ask for them with [As].
//
// [Manager] and [Lease] are what package leasing makes of a provider. They are
// defined here, beside the requests that they turn into, and closed: only
// package leasing implements them, so that they can grow.
package abstractions
