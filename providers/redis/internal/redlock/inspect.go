package redlock

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
)

// Inspect asks all nodes, and waits for those that usually answer: with all of them
// heard it is certain who holds the name.
func (r *Redlock) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	p := r.ask(ctx, r.patience(r.MaxTTL), r.Naming.Keys(req.Name).Inspect(), (*poll).all)
	errs := make([]error, len(r.nodes))
	var records []abstractions.Record
	for i, reply := range p.replies {
		record, err := reply.Record(req.Name)
		if errs[i] = err; err == nil {
			records = append(records, record)
		}
	}
	switch {
	case len(records) >= r.quorum:
		return r.record(req.Name, records), nil
	case ctx.Err() != nil:
		return abstractions.Record{}, failure.Of(ctx.Err())
	}
	return abstractions.Record{}, r.failed(errs, false)
}

// record is what a majority of records comes to.
func (r *Redlock) record(name string, records []abstractions.Record) abstractions.Record {
	unheard := len(r.nodes) - len(records)
	var holders []abstractions.Record
	for _, record := range records {
		if same := ofClaim(records, record.ID); record.Held && len(same) > len(holders) {
			holders = same
		}
	}
	if len(holders) > 0 && len(holders)+unheard >= r.quorum {
		record := r.merged(holders, len(records)-len(holders))
		record.Unconfirmed = len(holders) < r.quorum
		return record
	}
	tokens := make([]int64, len(records))
	for i, record := range records {
		tokens[i] = record.Token
	}
	return abstractions.Record{Name: name, Token: r.latest(tokens), Now: records[0].Now}
}

func ofClaim(records []abstractions.Record, id string) (same []abstractions.Record) {
	for _, record := range records {
		if record.Held && record.ID == id {
			same = append(same, record)
		}
	}
	return same
}

// merged is one record of what several nodes have of a claim, while others are free or
// may be soon. Its times are by the clock of the node that will be the one to make a
// majority free; when it was acquired is what the token says.
func (r *Redlock) merged(records []abstractions.Record, free int) abstractions.Record {
	tokens, breaking := make([]int64, len(records)), []abstractions.Record(nil)
	for i, one := range records {
		tokens[i] = one.Token
		if one.Breaking {
			breaking = append(breaking, one)
		}
	}
	slices.SortStableFunc(records, func(a, b abstractions.Record) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
	record := records[min(max(r.quorum-free, 1), len(records))-1]
	record.Token = r.latest(tokens)
	record.Metadata = mostHave(records)
	if record.Breaking = len(r.nodes)-len(breaking) < r.quorum; record.Breaking {
		record.BrokenBy, record.BreakReason = breaking[0].BrokenBy, breaking[0].BreakReason
	} else {
		record.BrokenBy, record.BreakReason = "", ""
	}
	record.AcquiredAt = time.UnixMicro(record.Token)
	if record.AcquiredAt.After(record.Now) {
		record.AcquiredAt = record.Now
	}
	return record
}

// mostHave are the metadata that most nodes have. A renewal that changes them counts for
// a majority, and one that fails for none: others have missed it.
func mostHave(records []abstractions.Record) map[string]string {
	var best map[string]string
	most := 0
	for _, record := range slices.Backward(records) { // of two alike the one that was renewed the latest
		n := 0
		for _, other := range records {
			if maps.Equal(record.Metadata, other.Metadata) {
				n++
			}
		}
		if n > most {
			best, most = record.Metadata, n
		}
	}
	return best
}
