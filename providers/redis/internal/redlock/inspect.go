package redlock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// Inspect asks all nodes, and waits for those that usually answer: with all of them
// heard it is certain who holds the name.
func (r *Redlock) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	p := r.ask(ctx, r.patience(r.MaxTTL), (*poll).all, r.Naming.Keys(req.Name).Inspect())
	records, errs := read(p, func(reply script.Reply) (abstractions.Record, error) { return reply.Record(req.Name) })
	if len(records) < r.quorum {
		return abstractions.Record{}, r.failed(ctx, errs, false)
	}
	return r.record(req.Name, records), nil
}

// record is what a majority of records comes to.
func (r *Redlock) record(name string, records []abstractions.Record) abstractions.Record {
	holders := ofOneClaim(records)
	if unheard := len(r.nodes) - len(records); len(holders) > 0 && len(holders)+unheard >= r.quorum {
		record := r.merged(holders, len(records)-len(holders))
		record.Unconfirmed = len(holders) < r.quorum
		return record
	}
	return abstractions.Record{Name: name, Token: r.latest(records), Now: records[0].Now}
}

// ofOneClaim are the records of the claim that holds the name on most nodes.
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

// latest is the token of a name that nodes have so, of which some may be missing.
// A majority has it, or a higher one: those of nodes that somebody got in vain.
func (r *Redlock) latest(records []abstractions.Record) int64 {
	rising := slices.SortedFunc(slices.Values(records), func(a, b abstractions.Record) int { return cmp.Compare(a.Token, b.Token) })
	missing := len(r.nodes) - len(rising)
	return rising[len(rising)-max(1, r.quorum-missing)].Token
}

// merged is one record of what several nodes have of a claim, while others are free or
// may be soon. Its times are by the clock of the node that will be the one to make a
// majority free; when it was acquired is what the token says.
func (r *Redlock) merged(records []abstractions.Record, free int) abstractions.Record {
	breaking := slices.DeleteFunc(slices.Clone(records), func(one abstractions.Record) bool { return !one.Breaking })
	slices.SortStableFunc(records, func(a, b abstractions.Record) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
	record := records[min(max(r.quorum-free, 1), len(records))-1]
	record.Token = r.latest(records)
	record.Metadata = mostHave(records)
	record.Breaking, record.BrokenBy, record.BreakReason = false, "", ""
	if len(r.nodes)-len(breaking) < r.quorum {
		record.Breaking, record.BrokenBy, record.BreakReason = true, breaking[0].BrokenBy, breaking[0].BreakReason
	}
	record.AcquiredAt = time.UnixMicro(min(record.Token, record.Now.UnixMicro()))
	return record
}

// mostHave are the metadata that most nodes have. A renewal that changes them counts for
// a majority, and one that fails for none: others have missed it.
func mostHave(records []abstractions.Record) (best map[string]string) {
	count := map[string]int{}
	for _, record := range records {
		count[script.EncodeMetadata(record.Metadata)]++
	}
	most := 0
	for _, record := range slices.Backward(records) { // of two alike the one that was renewed the latest
		if n := count[script.EncodeMetadata(record.Metadata)]; n > most {
			best, most = record.Metadata, n
		}
	}
	return best
}
