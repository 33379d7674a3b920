// Package abstractions defines the contract between package leasing and its
// providers, which connect it to a backend. It is for authors of providers.
// Applications import package leasing, which has everything they need.
//
// A [Provider] makes single attempts. Timers, retries and metrics are
// implemented once, in package leasing. The comments of Provider and of the request
// types are the contract, and package providertest checks that providers keep the
// contract. Package providerkit has the code that providers share: validation,
// bounds, errors, configuration, the rules of a record.
//
// Optional abilities ([BatchRenewer], [Waiter], [WaiterLister], [Lister],
// [Pinger], [HistoryReader]) are interfaces of one method. Get them with [As].
//
// [Manager] and [Lease] are the interfaces behind leasing.Manager and leasing.Lease. An
// application implements them for a wrapper or a fake, by embedding: see leasing.ManagerOf.
package abstractions
