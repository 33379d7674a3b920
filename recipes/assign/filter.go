package assign

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/distributedleasing/leasing"
)

// namesKey is the metadata key under which the lease of a worker publishes the names in its
// Options.Partitions, as a Bloom filter in base64: a list of names may be longer than metadata.
const namesKey = "assign.partitions"

const (
	// nameBytes is the size of a filter for each name, and hashes counts the bits that a name sets. With these sizes, about one
	// in 10,000 of the names that a list lacks seems to be listed.
	nameBytes, hashes = 3, 8
	// maxFilterBytes bounds a filter.
	maxFilterBytes = 2048
	// minFilterBytes is the smallest filter that is worth its space.
	minFilterBytes = 16
)

// filter is the list that a worker publishes, or nil if the worker publishes none of its names.
type filter []byte

// newFilter returns a list's filter, of a size that leaves room for other metadata, or nil if there is too little room.
func newFilter(list []string, metadata map[string]string) filter {
	room := leasing.MaxMetadataBytes - len(namesKey)
	for key, value := range metadata {
		room -= len(key) + len(value)
	}
	size := min(max(nameBytes*len(list), minFilterBytes), maxFilterBytes, base64.RawStdEncoding.DecodedLen(max(room, 0)))
	if size < minFilterBytes {
		return nil
	}
	f := make(filter, size)
	for _, name := range list {
		f.eachBit(name, func(i uint64) bool {
			f[i/8] |= 1 << (i % 8)
			return true
		})
	}
	return f
}

// eachBit calls yield with the bits of a name until yield returns false. All bits are derived from two hashes (Kirsch and
// Mitzenmacher, "Less Hashing, Same Performance", 2006).
func (f filter) eachBit(name string, yield func(i uint64) bool) {
	sum := sha256.Sum256([]byte(name))
	first, second := binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])|1
	for k := range uint64(hashes) {
		if !yield((first + k*second) % uint64(8*len(f))) {
			return
		}
	}
}

// contains reports whether the list behind the filter has a name. A worker without a filter is assumed to have all names.
func (f filter) contains(name string) bool {
	has := true
	if len(f) > 0 {
		f.eachBit(name, func(i uint64) bool {
			has = f[i/8]&(1<<(i%8)) != 0
			return has
		})
	}
	return has
}

func (f filter) encode() string { return base64.RawStdEncoding.EncodeToString(f) }

// filterFromRecord returns the filter in the record of a worker's lease.
func filterFromRecord(record leasing.Record) filter {
	n, err := base64.RawStdEncoding.DecodeString(record.Metadata[namesKey])
	if err != nil {
		return nil
	}
	return n
}

// isShared returns a function that reports whether all workers have a name of this worker's list.
func (w *Worker) isShared(others []filter) func(name string) bool {
	return func(name string) bool {
		for _, n := range others {
			if !bytes.Equal(n, w.filter) && !n.contains(name) {
				return false
			}
		}
		return true
	}
}
