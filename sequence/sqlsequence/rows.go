package sqlsequence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// row is an entry as it is stored, and the database's time.
type row struct {
	seqstore.Entry
	now time.Time
}

func (r *row) scan(scan scan) error {
	var leased, expires, closed, filled, claim, notBefore, now int64
	var state, phase string
	err := scan(&r.Stream, &r.Seq, &r.Op, &r.Kind, &r.Owner, &state, &r.Token, &leased, &expires, &closed, &filled, &r.Renewals,
		&r.ClaimID, &r.ClaimOwner, &claim, &r.Attempts, &notBefore, &r.LastError, &r.Origin, &r.ReplacedBy, &r.Reason, &r.Payload, &phase, &r.Work.Data, &r.Uncleaned, &now)
	r.State, r.Work.Phase = seqstore.State(state), seqstore.Phase(phase)
	r.LeasedAt, r.ExpiresAt, r.ClosedAt, r.FilledAt = timeOf(leased), timeOf(expires), timeOf(closed), timeOf(filled)
	r.ClaimUntil, r.NotBefore, r.now = timeOf(claim), timeOf(notBefore), timeOf(now)
	return err
}

func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// micros rounds up, so that nothing ends early.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// queryEntry runs a statement that returns at most one entry.
func queryEntry(ctx context.Context, on session, statement string, args ...any) (r row, found bool, err error) {
	err = on.query(ctx, statement, args, func(scan scan) error {
		found = true
		return r.scan(scan)
	})
	return r, found, err
}

// streamRow is a stream's row.
type streamRow struct {
	next, sealed int64
	recovery     time.Time
	now          time.Time
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
