package deadlock

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
)

// Key is the key of the metadata under which the leases of an actor publish its wait: a
// JSON object with the wanted name ("name"), the start of the wait by the actor's clock
// ("since", RFC 3339), an ID of this wait ("wait"), and, if the actor has found that it
// is part of a cycle, a hash of the IDs of the cycle's waits ("cycle").
const Key = "leasing.waits-for"

// Wait is the wait of one actor in a cycle.
type Wait struct {
	Owner       string              // of the actor's manager
	Holds       string              // the name that the actor holds, and the previous actor waits for
	Fingerprint leasing.Fingerprint // of the claim to that name
	Token       int64               // of that claim
	For         string              // the name that the actor waits for, and the next actor holds
	Since       time.Time

	wait string // the ID of the wait: a later wait for the same name has another ID
	seen string // the key of the cycle that the actor has confirmed, or ""
}

// Error is a cycle: each actor waits for a name that the next actor holds, and the
// last actor for a name that the first holds. The first is the actor whose Acquire
// returned the error, or whose Observer was called.
type Error struct{ Waits []Wait }

func (e *Error) Error() string {
	parts := make([]string, len(e.Waits))
	for i, w := range e.Waits {
		parts[i] = fmt.Sprintf("%q holds %q and waits for %q", w.Owner, w.Holds, w.For)
	}
	return "deadlock: " + strings.Join(parts, "; ")
}

// Newest returns the wait that began last, by the clock of its actor. That actor gives way. All
// actors of a cycle agree on the newest wait.
func (e *Error) Newest() Wait { return slices.MaxFunc(e.Waits, byAge) }

// oldest returns the wait that began before all others. Under the policy Break its actor breaks the
// lease of the newest wait.
func (e *Error) oldest() Wait { return slices.MinFunc(e.Waits, byAge) }

func byAge(a, b Wait) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.wait, b.wait))
}

// key returns an ID of the cycle, the same for all its actors.
func (e *Error) key() string {
	ids := make([]string, len(e.Waits))
	for i, w := range e.Waits {
		ids[i] = w.wait
	}
	slices.Sort(ids)
	sum := sha256.Sum256([]byte(strings.Join(ids, " ")))
	return hex.EncodeToString(sum[:keyBytes])
}

// keyBytes is the length of the hash of a cycle in the metadata.
const keyBytes = 16

// isConfirmed reports whether all other actors of the cycle have confirmed the cycle.
func (e *Error) isConfirmed(key string) bool {
	return !slices.ContainsFunc(e.Waits[1:], func(w Wait) bool { return w.seen != key })
}

// edge is the content of a lease's metadata under Key.
type edge struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	Wait  string    `json:"wait"`
	Seen  string    `json:"cycle,omitempty"`
}

func (e edge) encode() string {
	text, err := json.Marshal(e)
	if err != nil {
		return "" // fails only for a year beyond 9999: then no wait is published
	}
	return string(text)
}

// decodeEdge returns the wait that the holder of a record publishes.
func decodeEdge(r leasing.Record) (edge, bool) {
	var e edge
	text, found := r.Metadata[Key]
	return e, found && json.Unmarshal([]byte(text), &e) == nil && leasing.ValidateName(e.Name) == nil && e.Wait != ""
}

// findCycle follows the chain of holders and their waits, and returns the chain if it leads from
// the given wait back to one of the leases in own. It returns nil if the chain does not lead back,
// or if a part of it is unknown.
func findCycle(ctx context.Context, manager *leasing.Manager, from edge, own map[leasing.Fingerprint]*leasing.Lease) []Wait {
	path := []Wait{{For: from.Name, Since: from.Since, wait: from.Wait}}
	seen := map[string]bool{}
	for name := from.Name; !seen[name]; {
		seen[name] = true
		r, err := manager.Inspect(ctx, name)
		if err != nil || !r.Held || r.Unconfirmed {
			return nil
		}
		if own[r.Fingerprint] != nil {
			first := &path[0]
			first.Owner, first.Holds, first.Fingerprint, first.Token = r.Owner, name, r.Fingerprint, r.Token
			return path
		}
		next, published := decodeEdge(r)
		if !published {
			return nil
		}
		path = append(path, Wait{Owner: r.Owner, Holds: name, Fingerprint: r.Fingerprint, Token: r.Token, For: next.Name, Since: next.Since, wait: next.Wait, seen: next.Seen})
		name = next.Name
	}
	return nil // a cycle without this actor
}
