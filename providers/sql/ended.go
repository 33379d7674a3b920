package sqllease

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Each ID that a name refuses is stored in 13 bytes, the latest first: 8 of its hash, a
// byte that is 1 if it was broken, and the second in which it ended. 64 of them are
// 832 bytes, so that the row of a name that is always busy stays within its page, where
// the IDs themselves would be 3 KB. One in 10^17 claims meets the hash of another.
const (
	hashBytes    = 8
	endedMark    = hashBytes     // where the byte is that says broken
	endedSecond  = endedMark + 1 // where the second is
	endedBytes   = endedSecond + 4
	brokenByMark = 1
)

// hashOf stands for an ID in the memory of ended ones.
func hashOf(id string) []byte { return appendHash(nil, id) }

func appendHash(to []byte, id string) []byte {
	var text [64]byte // most IDs fit, and need no memory of their own
	sum := sha256.Sum256(append(text[:0], id...))
	return append(to, sum[:hashBytes]...)
}

// unknownID is how an ID that nobody asks for reads: its hash and a byte that no ID has.
func unknownID(id string) (hash []byte, ok bool) {
	if len(id) == endedSecond && id[endedMark] <= brokenByMark {
		return []byte(id[:hashBytes]), true
	}
	return nil, false
}

// decodeEnded reads the memory of a row. The given IDs, those of the holder and of the
// request, are told from the others.
func decodeEnded(stored []byte, ids ...string) providerkit.Ended {
	if len(stored) < endedBytes {
		return nil
	}
	hashes := make([][]byte, len(ids))
	for i, id := range ids {
		hashes[i] = hashOf(id)
	}
	text := string(stored)
	ended := make(providerkit.Ended, 0, len(text)/endedBytes+1)
	for at := len(text)/endedBytes*endedBytes - endedBytes; at >= 0; at -= endedBytes {
		entry := providerkit.EndedID{
			ID: text[at : at+endedSecond], Broken: text[at+endedMark] == brokenByMark,
			At: int64(binary.BigEndian.Uint32(stored[at+endedSecond:])),
		}
		for i, hash := range hashes {
			if bytes.Equal(hash, stored[at:at+hashBytes]) {
				entry.ID = ids[i]
			}
		}
		ended = append(ended, entry)
	}
	return ended
}

// encodeEnded returns a memory in its stored form, never nil.
func encodeEnded(ended providerkit.Ended) []byte {
	stored := make([]byte, 0, len(ended)*endedBytes)
	for i := len(ended) - 1; i >= 0; i-- {
		hash, ok := unknownID(ended[i].ID)
		if !ok {
			hash = hashOf(ended[i].ID)
		}
		stored = append(stored, hash...)
		if ended[i].Broken {
			stored = append(stored, brokenByMark)
		} else {
			stored = append(stored, 0)
		}
		stored = binary.BigEndian.AppendUint32(stored, uint32(ended[i].At))
	}
	return stored
}
