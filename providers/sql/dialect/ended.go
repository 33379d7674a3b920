package dialect

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Each ID that a name refuses is stored in 13 bytes, the latest first: its hash, a byte that is 1
// if its lease was broken, and the second in which the lease ended. 64 entries take 832 bytes, so
// the row of a name that is always busy fits into its page; the IDs themselves would take 3 KB. One
// in 10^17 claims has the hash of another claim.
const (
	endedMark    = HashBytes     // the offset of the byte that marks a break
	endedSecond  = endedMark + 1 // the offset of the time in seconds
	EndedBytes   = endedSecond + 4
	brokenByMark = 1
	// EndedDropped is the number of entries that a new entry replaces once they are too old. So the memory of a name that was
	// once busy shrinks by one entry with each new entry.
	EndedDropped = 2
)

// endedEntry returns the entry of a hash in the memory of a row, or nil.
func endedEntry(stored, hash []byte) []byte {
	for at := 0; at+EndedBytes <= len(stored); at += EndedBytes {
		if bytes.Equal(hash, stored[at:at+HashBytes]) {
			return stored[at : at+EndedBytes]
		}
	}
	return nil
}

// decodeEnded returns the entries of the holder and of a request's ID in the memory of a row. The rules need no other
// entries.
func decodeEnded(stored []byte, holder, id string) (ended providerkit.Ended) {
	if len(stored) == 0 {
		return nil
	}
	var hash [HashBytes]byte
	for _, id := range [...]string{holder, id} {
		if known, _ := ended.Find(id); known || id == "" {
			continue
		}
		if entry := endedEntry(stored, AppendHash(hash[:0], id)); entry != nil {
			at := int64(binary.BigEndian.Uint32(entry[endedSecond:]))
			ended = append(ended, providerkit.EndedID{ID: id, Broken: entry[endedMark] == brokenByMark, At: at})
		}
	}
	return ended
}

// EncodeEnded adds the IDs that a rule has ended to the stored memory of a row, within the bounds of
// providerkit.Ended. An ID that is stored already is left out. The result is never nil.
func EncodeEnded(ended providerkit.Ended, stored []byte) []byte {
	for i := range ended {
		hash := HashOf(ended[i].ID)
		if endedEntry(stored, hash) != nil {
			continue
		}
		n := len(stored) / EndedBytes
		keep := min(n, providerkit.EndedMost-1)
		if n >= providerkit.EndedLeast {
			last := int64(binary.BigEndian.Uint32(stored[(n-EndedDropped)*EndedBytes+endedSecond:]))
			if ended[i].At-last > int64(providerkit.EndedFor/time.Second) {
				keep = max(providerkit.EndedLeast-1, n-EndedDropped)
			}
		}
		broken := byte(0)
		if ended[i].Broken {
			broken = brokenByMark
		}
		next := append(make([]byte, 0, (keep+1)*EndedBytes), hash...)
		next = binary.BigEndian.AppendUint32(append(next, broken), uint32(ended[i].At))
		stored = append(next, stored[:keep*EndedBytes]...)
	}
	if stored == nil {
		return []byte{}
	}
	return stored
}
