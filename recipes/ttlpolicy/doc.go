// Package ttlpolicy has ready-made policies for leasing.Options.TTLPolicy, which chooses
// the TTL of each lease when it is acquired.
//
// A TTL decides two things: how long a name stays taken after its holder has died, and
// how often a live holder renews. It does not bound the work, since leases are renewed.
// So a policy is a trade-off: a shorter TTL frees the names of dead holders sooner, and
// costs more renewals.
//
//   - [UnderLoad] shortens TTLs while the load is high.
//   - [Past] derives the TTL from how long earlier leases of the same kind were held. Work that
//     ends within its TTL needs no renewal, and the name of a short lease is free soon after its
//     holder dies.
//
// A lease keeps the TTL that it was granted with: no policy changes a lease that is
// already held.
package ttlpolicy
