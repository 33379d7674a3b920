package chaos

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"strings"
	"time"
)

// open reports whether the window is open; since is the time since the start.
func (p Policy) open(since time.Duration) bool {
	if p.Repeat > 0 {
		since %= p.Repeat
	}
	return since >= p.From && (p.To == 0 || since < p.To)
}

// counts reports whether the policy chooses the operation with the number n, counted from 1.
func (p Policy) counts(n int) bool {
	n -= p.Skip
	switch {
	case n < 1:
		return false
	case p.First != 0 && n > p.First:
		return false
	case p.Every != 0 && n%p.Every != 0:
		return false
	}
	return p.Sequence == "" || n <= len(p.Sequence) && p.Sequence[n-1] == 'x'
}

// hits reports whether draw, a random number in [0, 1), chooses the operation.
func (p Policy) hits(draw float64) bool { return p.Probability == 0 || draw < p.Probability }

// random holds the random numbers of one operation and one rule.
type random struct {
	happens, jitter float64
	seed            [2]uint64 // the seeds for a CustomFault and a CustomPolicy
}

// draw derives random numbers only from the seed, the rule and the operation,
// and not from the order of goroutines. So the third renewal of a name by an
// owner has the same fault in each run. The digest makes the numbers of similar
// operations independent.
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
		_, _ = io.WriteString(h, text) // writing to a hash never fails
	}
	digest := h.Sum(nil)
	return random{
		happens: unit(digest), jitter: unit(digest[8:]),
		seed: [2]uint64{binary.BigEndian.Uint64(digest[16:]), binary.BigEndian.Uint64(digest[24:])},
	}
}

// unit converts 53 bits to a number in [0, 1).
func unit(digest []byte) float64 {
	return float64(binary.BigEndian.Uint64(digest)>>11) / (1 << 53)
}

// fits reports whether text matches a pattern, in which * stands for any number of characters,
// including slashes.
func fits(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

// fitsAny reports whether there are no patterns, or text fits any pattern. An empty text fits no
// pattern.
func fitsAny(patterns []string, text string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, pattern := range patterns {
		if text != "" && fits(pattern, text) {
			return true
		}
	}
	return false
}

// limiter enforces a budget and a rate.
type limiter struct {
	budget  Budget
	rate    Rate
	total   int
	perName counters[string]
	times   []time.Duration // the times of the latest faults, in a ring of at most rate.Count
	next    int
}

func newLimiter(b Budget, r Rate) limiter {
	return limiter{budget: b, rate: r, perName: newCounters[string]()}
}

// refuses returns the limit that one more fault would exceed, or "". take counts the fault.
func (l *limiter) refuses(name string, since time.Duration) Reason {
	switch {
	case l.budget.Total != 0 && l.total >= l.budget.Total, l.budget.PerName != 0 && l.perName.of(name) >= l.budget.PerName:
		return ReasonBudget
	case l.rate.Count != 0 && len(l.times) == l.rate.Count && since-l.times[l.next] < l.rate.Per:
		return ReasonRate
	}
	return ""
}

func (l *limiter) take(name string, since time.Duration) {
	l.total++
	if l.budget.PerName != 0 {
		l.perName.add(name)
	}
	switch {
	case l.rate.Count == 0:
	case len(l.times) < l.rate.Count:
		l.times = append(l.times, since)
	default:
		l.times[l.next] = since
		l.next = (l.next + 1) % len(l.times)
	}
}
