package sqllease

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// storedRow is a record and the row in which it is stored. Times are in microseconds since 1970.
type storedRow struct {
	providerkit.Record
	version       int64                // rises with every change; 0 if there is no row
	ended         []byte               // of which Record.Ended is what matters to the request: see ended.go
	at            providerkit.HostTime // of the read
	ends          providerkit.HostDeadline
	ttl, acquired *int64
	metadata      string
	waiters       lineUp // but for PostgreSQL's
	began, seen   int64  // a server's clock when the read began, and on MySQL when the row was read
}

// The row of the empty name, which no lease has, is the floor: its token is the highest of those that were forgotten. A name whose
// token is 0 may have been forgotten, so its next token is above the floor.

// columns are where to scan them, the name and then those of the hole "row", and the parameters of statements. boot and boot_us are
// SQLite's alone, and the clocks and the floor MySQL's.
func (r *storedRow) columns() []any {
	return []any{
		&r.Name, &r.version, &r.Token, &r.ID, &r.Owner, &r.ttl, &r.metadata, &r.acquired, &r.ends.Wall, &r.Breaking, &r.BrokenBy, &r.BreakReason,
		&r.ended, (*string)(&r.waiters), &r.ends.Boot, &r.ends.SinceBoot, &r.began, &r.seen, &r.Floor,
	}
}

// pgColumns are where to scan what PostgreSQL's statements read: the fragment "row" behind the clock, and no name.
func (r *storedRow) pgColumns() []any {
	columns := r.columns()
	columns[0], columns[12] = &r.began, (*inHex)(&r.ended)
	return columns[:13]
}

// inHex are bytes that are read as a text.
type inHex []byte

// Scan reads a column.
func (b *inHex) Scan(column any) (err error) {
	var text sql.NullString // drivers return bytes too
	if err = text.Scan(column); err == nil {
		*b, err = hex.DecodeString(text.String)
	}
	return err
}

// settle completes the record for a request of an ID.
func (r *storedRow) settle(id string) {
	if r.began != 0 {
		r.at.Wall = time.UnixMicro(r.began)
	}
	r.TTL, r.Metadata, r.Ended = fromMicros(r.ttl), decodeMetadata(r.metadata), decodeEnded(r.ended, r.ID, id)
	if r.acquired != nil {
		r.AcquiredAt = time.UnixMicro(*r.acquired).UTC()
	}
	if r.Now = r.at.Wall.UTC(); r.ID == "" {
		return
	}
	r.Unsettled = r.ends.OtherBoot(r.at)
	r.SetLeft(r.ends.Left(r.at))
	if r.Unsettled && r.seen != 0 {
		r.settleAgain()
	}
}

// kept says whether a name that nobody holds is reserved for the first who waits, and for how long.
func (r *storedRow) kept() (left time.Duration, ok bool) {
	if r.ID != "" || r.waiters == "" || r.ends.Wall == 0 || r.ends.OtherBoot(r.at) {
		return 0, false
	}
	left = r.ends.Left(r.at)
	return left, left > 0 && left < longestTurn
}

// encode fills in the columns of what a rule has changed, and returns the version that this follows.
func (r *storedRow) encode() (before int64) {
	before, r.version = r.version, max(r.version+1, r.at.Wall.UnixMicro())
	r.ttl, r.metadata, r.ended, r.acquired = nil, encodeMetadata(r.Metadata), encodeEnded(r.Ended, r.ended), nil
	if r.ID != "" {
		r.ttl = micros(r.TTL)
	}
	if !r.AcquiredAt.IsZero() {
		us := r.AcquiredAt.UnixMicro()
		r.acquired = &us
	}
	return before
}

// hashBytes is how much is stored of the hash of an ID.
const hashBytes = 8

// hashOf stands for an ID among those who wait, and in the memory of ended ones.
func hashOf(id string) []byte { return appendHash(nil, id) }

func appendHash(to []byte, id string) []byte {
	var text [64]byte // most IDs fit, and need no memory of their own
	sum := sha256.Sum256(append(text[:0], id...))
	return append(to, sum[:hashBytes]...)
}

func encodeMetadata(metadata map[string]string) string {
	if len(metadata) == 0 {
		return "{}"
	}
	text, _ := json.Marshal(metadata) // strings always encode
	return string(text)
}

// decodeMetadata returns nil for none, and for what somebody else wrote there.
func decodeMetadata(text string) map[string]string {
	if text == "{}" {
		return nil
	}
	var metadata map[string]string
	if json.Unmarshal([]byte(text), &metadata) != nil || len(metadata) == 0 {
		return nil
	}
	return metadata
}

// micros is d in the unit of the databases, rounded up: never early. nil
// stands for an infinite lease.
func micros(d time.Duration) *int64 {
	if d == abstractions.Infinite {
		return nil
	}
	us := int64((d + time.Microsecond - 1) / time.Microsecond)
	return &us
}

func fromMicros(us *int64) time.Duration {
	if us == nil || *us > int64(abstractions.Infinite/time.Microsecond) {
		return abstractions.Infinite
	}
	return time.Duration(*us) * time.Microsecond
}
