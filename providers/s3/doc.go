// Package s3lease keeps leases in Amazon S3 and compatible stores. Each name is an
// object, which is replaced conditionally on its ETag.
//
//	provider, err := s3lease.Open(ctx, s3lease.Options{Bucket: "my-bucket", Region: "eu-central-1"})
//	provider, err := s3lease.OpenURL(ctx, "s3://my-bucket/leases?region=eu-central-1")
//
// Prices, permissions, and the stores known to work are in docs/providers/s3.md.
//
// # What it promises
//
// The provider keeps the promises of package leasing, on a store that honours
// conditional writes and has read-after-write consistency, as S3 does:
//
//   - Every change is one PUT of one object, with If-Match and the ETag that was read,
//     or with If-None-Match: * if the object does not exist yet. If a reply is lost, a
//     read shows whether the request was applied.
//   - A lease has run out if the Date of a read is later than the object's Last-Modified
//     by the TTL plus 1 s plus [Options].ClockSkew; or if this process has watched the
//     holder's last write for the TTL and a hundredth more, by its monotonic clock. No
//     client's wall clock is involved.
//   - The fencing token is max(latest + 1, the store's time in microseconds). It rises
//     through release, expiry, Break, and the deletion of objects.
//   - Open refuses a store that ignores a condition, with leasing.ErrNotSetUp.
//
// # What it does not promise
//
// Open tests whether conditions are honoured, and at the first use of a prefix whether
// exactly one of four concurrent writers creates a key. It can't prove that a store is
// atomic at all times, on all of its servers. If a store grants two conflicting writes,
// only fencing tokens protect you.
//
// The store's times are whole seconds of perhaps two clocks, so a lease that is not
// renewed blocks its name for up to 6 s beyond its TTL (Capabilities.Lateness). A TTL is
// 5 s to 12 h, never infinite: see below. Waiters poll, and Manager.Waiters is not
// supported.
//
// Anyone who may write to the bucket can end every lease by deleting its object.
//
// # Names are not forgotten
//
// Deletion is not safe. Many stores ignore the condition of a DELETE, and a delayed
// DELETE removes any object that has the key when it arrives, such as the record of a new
// holder. No earlier write prevents such a deletion. So this provider never deletes. An
// object has less than 5 KB, usually 0.6 KB. Storing that much in S3 for 30 years costs about as much as the PUT that created the
// object.
//
// For names that are used once, use a separate prefix, and a lifecycle rule that expires
// its objects a day or more after their last write. A holder writes at each renewal and
// trusts a lease for 12 h at most, so no expired object belongs to a holder. If a name is acquired again just as its object
// expires, the object may still be removed: S3 queues objects for deletion, and does not document whether it checks them again
// before the deletion. So exclude long-lived names from the rule.
//
// # How it works
//
// The rules, and the form of the record, are those of cas.Records. The lease
// jobs/daily is the object leases/jobs~2Fdaily (see [cas.Naming]). S3 derives
// ETags from the content, so each write contains a unique ID: otherwise a client that
// read the object before a renewal could still replace it afterwards.
//
// Some stores build a reply from several reads of an object: if a write comes in between, the reply may combine an old
// Last-Modified with a new ETag. So, except on S3 itself, an object is replaced only after a second read has returned the same
// state. If the ETag still matches at the write, the second read was consistent.
//
// Open writes the object leases/~~probe, which holds no lease, with conditions that
// don't hold and one condition that holds. If a store requires ETags without quotes, the
// conditions omit the quotes.
package s3lease
