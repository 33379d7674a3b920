package dialect

import "crypto/sha256"

// HashBytes is the stored length of the hash of an ID, in bytes.
const HashBytes = 8

// HashOf returns the hash of an ID. It stands for the ID in the queue of waiters, and in the memory of ended IDs.
func HashOf(id string) []byte { return AppendHash(nil, id) }

// AppendHash appends the hash of an ID: see [HashOf].
func AppendHash(to []byte, id string) []byte {
	var text [64]byte // most IDs fit, and need no allocation
	sum := sha256.Sum256(append(text[:0], id...))
	return append(to, sum[:HashBytes]...)
}
