package torture

import (
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
)

// overdue finds claims that were refused because of a lease that must have run out by
// then. Those of an unknown end are left alone.
func (n *named) overdue() {
	ends := map[string]time.Duration{} // of each claim's leases, at the latest
	for id, c := range n.claims {
		for _, o := range c.answered {
			switch {
			case o.Result == resultUnknown && o.Verb != "release":
				ends[id] = never
			case o.extends():
				ends[id] = max(ends[id], n.over(o))
			}
		}
	}
	for _, o := range n.operations {
		end, ok := ends[o.Holder]
		if ok && o.Layer == layerBackend && o.Result == resultHeld && o.Call > end {
			n.violated(o.Return, "claim %s was refused because of claim %s, whose lease must have run out %s before", o.Claim, o.Holder, seconds(o.Call-end))
			delete(ends, o.Holder) // one word for each lease is enough
		}
	}
}

// over is when a lease that a request has made or prolonged is over at the latest.
func (v *verification) over(o *operation) time.Duration {
	if o.TTL == leasing.Infinite {
		return never
	}
	return o.Return + o.TTL + v.margin(o.TTL) + v.lateness.After(o.TTL)
}

// kept finds names that were not free when all was over.
func (v *verification) kept() {
	for _, f := range v.h.Free {
		if f.At == 0 || f.At > f.By {
			text := fmt.Sprintf("nobody holds the name, but it was not free %s after the last client was closed", seconds(f.By-v.h.Closed))
			v.found = append(v.found, Violation{Check: checkLeak, Name: f.Name, At: f.By, Text: text})
		}
	}
}
