// Package s3lease is the provider of Amazon S3, and of stores that are compatible with
// it: each name is an object, replaced under its ETag.
//
//	provider, err := s3lease.Open(ctx, s3lease.Options{Bucket: "my-bucket", Region: "eu-central-1"})
//	provider, err := s3lease.OpenURL(ctx, "s3://my-bucket/leases?region=eu-central-1")
//
// Prices, permissions, and the stores known to work are in docs/providers/s3.md.
//
// # What it promises
//
// The promises of package leasing, on a store that honours the conditions of writes, and
// shows each write to all reads that follow, as S3 does:
//
//   - Every change is one PUT of one object, with If-Match and the ETag that was read,
//     or with If-None-Match: * where there is none yet. Where a reply is lost a read
//     shows what came of the request.
//   - A lease is over by the store's time, when the Date of a read is later than the
//     object's Last-Modified by the TTL, a second, and a margin for clocks that disagree
//     ([Options].ClockSkew); or when this process has seen the holder's last write for
//     its TTL and a hundredth more, by its monotonic clock. No client's wall clock counts.
//   - The fencing token is max(latest + 1, the store's time in microseconds). It rises
//     through release, expiry, Break, and the deletion of objects.
//   - Open refuses a store that ignores a condition, with leasing.ErrNotSetUp.
//
// # What it does not promise
//
// Open sees whether conditions are honoured, and at the first use of a prefix whether one
// of four writers at once gets a key. It can't prove that a store decides atomically at
// all times, on all of its servers. Nothing but the token protects from one that says
// yes to two.
//
// The store's times are whole seconds of perhaps two clocks, so a lease that is not
// renewed blocks its name for up to 6 s beyond its TTL (Capabilities.Lateness). A TTL is
// 5 s to 12 h, never infinite: see below. Waiters poll, and who waits is written nowhere.
//
// Whoever may write in the bucket can end every lease, by deleting its object.
//
// # Names are not forgotten
//
// There is no safe deletion. Many stores ignore the condition of a DELETE, and one that
// is delayed hits whatever has the key when it arrives: the record of a new holder, whose
// name would be free. No write beforehand prevents that. So this provider never deletes.
// An object has less than 5 KB, mostly 0.6: S3 stores that for 30 years at the price of
// the PUT that has made it.
//
// Where names are used once, give them a prefix of their own, and the bucket a lifecycle
// rule that expires what is under it after a day or more since its last write. A
// holder writes at each renewal and trusts a lease for 12 h at most, so no object that
// is due is a holder's. One that is taken anew at the moment of its expiry may be
// removed: S3 queues objects for that, and does not say whether it looks again. So leave
// names that are used for years out of the rule.
//
// # How it works
//
// The rules, and the form of what is stored, are those of providerkit.Records. The lease
// jobs/daily is the object leases/jobs~2Fdaily (see [providerkit.Naming]). S3 makes ETags
// of the content, so each write of a holder has an ID of its own in it: otherwise
// somebody who has read the object could replace it after a renewal.
//
// Some stores put a reply together from several looks at an object, between which
// somebody may write: an old Last-Modified beside a new ETag. So what was read is replaced
// only after a second read that shows the same, except on S3 itself. If the ETag still
// holds then, the second read has seen that version alone.
//
// Open writes the object leases/~~probe, which holds no lease, on conditions that don't
// hold and on one that does. A store that wants ETags without quotes gets them so.
package s3lease
