// Package ttlpolicy has ready-made policies for leasing.Options.TTLPolicy, which chooses
// the TTL of each lease as it is asked for.
//
// A TTL decides two things: how long a name stays taken after its holder has died, and
// how often a living holder renews. It does not bound the work, since leases are
// renewed. So a policy is about the price of a death: shorter TTLs give the names of the
// dead away sooner, and cost more renewals.
//
//   - [UnderLoad] shortens the TTLs while much is going on.
//   - [Past] makes a TTL from how long leases of the same kind were held before: where
//     the work takes less than the TTL there is no renewal at all, and where it is
//     short its name is soon free again.
//
// A lease keeps the TTL that it was granted with. Nothing here shortens one that runs.
package ttlpolicy
