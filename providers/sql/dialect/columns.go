package dialect

import (
	"encoding/json"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
)

// Row is a record and the row in which it is stored. Times are in microseconds since 1970.
type Row struct {
	providerkit.Record
	Version             int64          // rises with every change; 0 if there is no row
	Memory              []byte         // the stored ended IDs; Record.Ended has the entries for the request: see ended.go
	At                  hostclock.Time // the time of the read
	Ends                hostclock.Deadline
	TTLMicros, acquired *int64
	MetadataText        string
	waiters             WaitList // empty on PostgreSQL
	Began, seen         int64    // a server's clock when the read began, and on MySQL when the row was read
}

// The row of the empty name, which no lease has, is the floor: its token is the highest forgotten token. A name whose
// token is 0 may have been forgotten, so its next token is above the floor.

// Columns returns pointers to the columns: the name, and then those of the hole "row". They are scan targets, and also parameters
// of statements. Only SQLite has boot and boot_us, and only the servers have the clocks and the floor.
func (r *Row) Columns() []any {
	return []any{
		&r.Name, &r.Version, &r.Token, &r.ID, &r.Owner, &r.TTLMicros, &r.MetadataText, &r.acquired, &r.Ends.Wall, &r.Breaking, &r.BrokenBy, &r.BreakReason,
		&r.Memory, (*string)(&r.waiters), &r.Ends.Boot, &r.Ends.SinceBoot, &r.Began, &r.seen, &r.Floor,
	}
}

// Settle completes the record for a request with an ID.
func (r *Row) Settle(id string) {
	if r.Began != 0 {
		r.At.Wall = time.UnixMicro(r.Began)
	}
	r.TTL, r.Metadata, r.Ended = FromMicros(r.TTLMicros), decodeMetadata(r.MetadataText), decodeEnded(r.Memory, r.ID, id)
	if r.acquired != nil {
		r.AcquiredAt = time.UnixMicro(*r.acquired).UTC()
	}
	if r.Now = r.At.Wall.UTC(); r.ID == "" {
		return
	}
	r.Unsettled = r.Ends.OtherBoot(r.At)
	r.SetLeft(r.Ends.Left(r.At))
	if r.Unsettled && r.seen != 0 {
		r.settleClockStep()
	}
}

// settleClockStep handles a row that has more time left than its TTL. If the row was written after the read began, no clock has
// gone back, and the row's deadline stays.
func (r *Row) settleClockStep() {
	left, late := r.Left, time.UnixMicro(r.seen)
	r.Unsettled = false
	if r.SetLeft(r.Ends.Left(hostclock.Time{Wall: late})); r.Unsettled {
		r.At.Wall, r.Now = late, late.UTC()
	} else {
		r.Left = left
	}
}

// reservation reports whether a free name is reserved for its first waiter, and for how long.
func (r *Row) reservation() (left time.Duration, ok bool) {
	if r.ID != "" || r.waiters == "" || r.Ends.Wall == 0 || r.Ends.OtherBoot(r.At) {
		return 0, false
	}
	left = r.Ends.Left(r.At)
	return left, left > 0 && left < maxReservation
}

// maxReservation is longer than any reservation. A longer time left means that the clock was set
// back after the row was written.
const maxReservation = time.Minute

// Encode fills in the columns that a rule has changed, and returns the row's previous version.
func (r *Row) Encode() (before int64) {
	before, r.Version = r.Version, max(r.Version+1, r.At.Wall.UnixMicro())
	r.TTLMicros, r.MetadataText, r.Memory, r.acquired = nil, EncodeMetadata(r.Metadata), EncodeEnded(r.Ended, r.Memory), nil
	if r.ID != "" {
		r.TTLMicros = Micros(r.TTL)
	}
	if !r.AcquiredAt.IsZero() {
		us := r.AcquiredAt.UnixMicro()
		r.acquired = &us
	}
	return before
}

// EncodeMetadata returns metadata as a JSON object.
func EncodeMetadata(metadata map[string]string) string {
	if len(metadata) == 0 {
		return "{}"
	}
	text, _ := json.Marshal(metadata) // strings always encode
	return string(text)
}

// decodeMetadata returns nil for no metadata, and for a text that leasing has not written.
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

// Micros returns d in microseconds, rounded up so that no lease ends early. nil stands
// for an infinite lease.
func Micros(d time.Duration) *int64 {
	if d == abstractions.Infinite {
		return nil
	}
	us := int64((d + time.Microsecond - 1) / time.Microsecond)
	return &us
}

// FromMicros is the inverse of [Micros].
func FromMicros(us *int64) time.Duration {
	if us == nil || *us > int64(abstractions.Infinite/time.Microsecond) {
		return abstractions.Infinite
	}
	return time.Duration(*us) * time.Microsecond
}
