package torture

import (
	"math"
	"time"

	"github.com/distributedleasing/leasing"
)

// overdue finds claims that were refused because of a lease that must have run out by
// then. Those of an unknown end are left alone.
func (n *named) overdue() {
	const unknown = math.MaxInt64 / 2
	seen := seenBy(n.operations, layerBackend)
	ends := map[string]time.Duration{} // of each claim's leases, at the latest
	for _, o := range seen {
		switch {
		case o.Verb != "acquire" && o.Verb != "renew":
		case o.Result == resultUnknown || o.Result == resultDone && o.TTL == leasing.Infinite:
			ends[o.Claim] = unknown
		case o.Result == resultDone:
			ends[o.Claim] = max(ends[o.Claim], n.over(&o))
		}
	}
	for _, o := range seen {
		end, ok := ends[o.Holder]
		if ok && o.Result == resultHeld && o.Call > end {
			n.violated(checkLeak, o.Return, "claim %s was refused because of claim %s, whose lease must have run out %s before", o.Claim, o.Holder, seconds(o.Call-end))
			delete(ends, o.Holder) // one word for each lease is enough
		}
	}
}

// over is when a lease that a request has made or prolonged is over at the latest.
func (v *verification) over(o *operation) time.Duration {
	if o.TTL == leasing.Infinite {
		return math.MaxInt64
	}
	return o.Return + o.TTL + v.margin(o.TTL) + v.lateness.After(o.TTL)
}

// kept finds names that were not free when all was over.
func (v *verification) kept() {
	for _, f := range v.h.Free {
		if f.At == 0 || f.At > f.By {
			v.violated(checkLeak, f.Name, f.By, "nobody holds the name, but it was not free %s after the last client was closed", seconds(f.By-v.h.Closed))
		}
	}
}
