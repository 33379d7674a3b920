// Package etagfence checks fencing tokens of objects and documents that store their
// token and are replaced conditionally on their ETag, as in Azure Blob Storage,
// Cosmos DB or Amazon S3. See package fencing for the reason.
//
// [Replace] reads the object, checks the token, and writes on condition that
// there was no other write in between. [NewCondition] applies the rule without
// the loop. [Metadata] and [ReadObject] are for tokens that are stored in an
// object's metadata.
//
// Write the token to the object when the lease begins: values read before that may
// still change.
package etagfence
