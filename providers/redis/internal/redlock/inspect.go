package redlock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// Inspect asks all nodes, and waits for the nodes that usually answer: if all of them
// answer, the holder is certain.
func (r *Redlock) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	p := r.ask(ctx, r.nodeTimeout(r.MaxTTL), (*poll).all, r.Naming.Keys(req.Name).Inspect())
	records, errs := read(p, func(reply script.Reply) (abstractions.Record, error) { return reply.Record(req.Name) })
	if len(records) < r.quorum {
		return abstractions.Record{}, r.majorityError(ctx, errs, false)
	}
	return r.record(req.Name, records), nil
}

// record merges the records of a majority.
func (r *Redlock) record(name string, records []abstractions.Record) abstractions.Record {
	holders := ofOneClaim(records)
	if unanswered := len(r.nodes) - len(records); len(holders) > 0 && len(holders)+unanswered >= r.quorum {
		record := r.mergedHolder(holders, len(records)-len(holders))
		record.Unconfirmed = len(holders) < r.quorum
		return record
	}
	return abstractions.Record{Name: name, Token: r.latest(records), Now: records[0].Now}
}

// ofOneClaim returns the records of the claim that holds the name on most nodes.
func ofOneClaim(records []abstractions.Record) (most []abstractions.Record) {
	byClaim := map[abstractions.Fingerprint][]abstractions.Record{}
	for _, record := range records {
		if record.Held {
			same := append(byClaim[record.Fingerprint], record)
			if byClaim[record.Fingerprint] = same; len(same) > len(most) {
				most = same
			}
		}
	}
	return most
}

// latest returns the token that a majority has reached. Some records may be missing. Higher
// tokens are from attempts that won some nodes, but no majority.
func (r *Redlock) latest(records []abstractions.Record) int64 {
	rising := slices.SortedFunc(slices.Values(records), func(a, b abstractions.Record) int { return cmp.Compare(a.Token, b.Token) })
	missing := len(r.nodes) - len(rising)
	return rising[len(rising)-max(1, r.quorum-missing)].Token
}

// mergedHolder merges the records that several nodes have of a claim; free counts the nodes that are
// free or may be soon. The times of the result are by the clock of the node whose expiry makes
// a majority free; AcquiredAt follows from the token.
func (r *Redlock) mergedHolder(records []abstractions.Record, free int) abstractions.Record {
	breaking := slices.DeleteFunc(slices.Clone(records), func(one abstractions.Record) bool { return !one.Breaking })
	slices.SortStableFunc(records, func(a, b abstractions.Record) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
	record := records[min(max(r.quorum-free, 1), len(records))-1]
	record.Token = r.latest(records)
	record.Metadata = commonMetadata(records)
	record.Breaking, record.BrokenBy, record.BreakReason = false, "", ""
	if len(r.nodes)-len(breaking) < r.quorum {
		record.Breaking, record.BrokenBy, record.BreakReason = true, breaking[0].BrokenBy, breaking[0].BreakReason
	}
	record.AcquiredAt = time.UnixMicro(min(record.Token, record.Now.UnixMicro()))
	return record
}

// commonMetadata returns the metadata of most records. A successful renewal with new metadata has
// reached a majority; a failed renewal may have changed the metadata on only some nodes.
func commonMetadata(records []abstractions.Record) (best map[string]string) {
	count := map[string]int{}
	for _, record := range records {
		count[script.EncodeMetadata(record.Metadata)]++
	}
	most := 0
	for _, record := range slices.Backward(records) { // in a tie, the latest renewal wins
		if n := count[script.EncodeMetadata(record.Metadata)]; n > most {
			best, most = record.Metadata, n
		}
	}
	return best
}
