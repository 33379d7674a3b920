// Package etagfence checks fencing tokens of objects and documents that carry their
// token and are replaced under an ETag, as in Azure Blob Storage, Cosmos DB or
// Amazon S3: see package fencing for why.
//
// [Replace] reads, checks, and writes under the condition that there was no write
// in between. [NewCondition] is the rule without the loop. [Metadata] and
// [ReadObject] are for tokens that are kept in an object's metadata.
//
// Write the object's token when the lease begins: values that were read before that
// may still change.
package etagfence
