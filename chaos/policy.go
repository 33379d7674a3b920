package chaos

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"time"
)

// open reports whether the window is open, since after the start.
func (p Policy) open(since time.Duration) bool {
	if p.Repeat > 0 {
		since %= p.Repeat
	}
	return since >= p.From && (p.To == 0 || since < p.To)
}

// picks decides about the n-th operation, from 1; roll is in [0, 1).
func (p Policy) picks(n int, draw float64) bool {
	n -= p.Skip
	switch {
	case n < 1:
		return false
	case p.First != 0 && n > p.First:
		return false
	case p.Every != 0 && n%p.Every != 0:
		return false
	case p.Sequence != "" && (n > len(p.Sequence) || p.Sequence[n-1] != 'x'):
		return false
	}
	return p.Probability == 0 || draw < p.Probability
}

// random are what is left to chance about one operation and one rule.
type random struct{ happens, jitter float64 }

// draw draws from the seed, the rule and what the operation is, and from
// nothing that depends on what other goroutines do: the third renewal of a name
// by an owner has the same fate in each run. A digest makes neighbours as
// different as strangers.
func draw(seed uint64, rule string, o operation, nth int) random {
	h := sha256.New()
	var number [8]byte
	for _, n := range []uint64{seed, uint64(nth)} {
		binary.BigEndian.PutUint64(number[:], n)
		h.Write(number[:])
	}
	for _, text := range []string{rule, string(o.op), o.name, o.owner} {
		binary.BigEndian.PutUint64(number[:], uint64(len(text)))
		h.Write(number[:])
		_, _ = io.WriteString(h, text) // a hash does not fail
	}
	digest := h.Sum(nil)
	return random{happens: unit(digest), jitter: unit(digest[8:])}
}

// unit makes 53 bits a number in [0, 1).
func unit(digest []byte) float64 {
	return float64(binary.BigEndian.Uint64(digest)>>11) / (1 << 53)
}
