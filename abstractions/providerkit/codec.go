package providerkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// formatVersion is of a stored record. A reader refuses what it does not know.
const formatVersion = 1

// stored is the JSON of a record. Times are in microseconds, by the store's clock
// since 1970.
type stored struct {
	Version int `json:"v"`
	Record
	TTL      int64 `json:"ttl_us,omitempty"` // 0 for ever
	Acquired int64 `json:"acquired_us,omitempty"`
	Idle     int64 `json:"idle_us,omitempty"`
	deadline
}

// deadline is when a lease ends. A store on one host has the host's deadline, any
// other one the rest.
type deadline struct {
	// Write tells the writes that set a deadline apart. It is random, so that no
	// earlier write can be taken for one whose outcome is ambiguous.
	Write string `json:"write,omitempty"`
	// Lasts is from the latest of them on; 0 for ever.
	Lasts int64 `json:"lasts_us,omitempty"`
	// Ends, unless 0, is the end by the service's clock, of a record that was written
	// since for another reason.
	Ends int64         `json:"ends_us,omitempty"`
	Host *HostDeadline `json:"host,omitempty"`
}

func encode(r *Record, d deadline) ([]byte, error) {
	return json.Marshal(stored{formatVersion, *r, micros(r.TTL), unixMicro(r.AcquiredAt), unixMicro(r.IdleSince), d})
}

// decode reads what encode made. A record of another name, or that this code does
// not understand, is left alone.
func decode(data []byte, name string) (Record, deadline, error) {
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return Record{}, deadline{}, fmt.Errorf("%w: what is stored for %q is no record of a lease: %w", abstractions.ErrNotSetUp, name, err)
	}
	switch {
	case s.Version != formatVersion:
		return Record{}, deadline{}, fmt.Errorf("%w: the record of %q has version %d, this code knows %d", abstractions.ErrNotSetUp, name, s.Version, formatVersion)
	case s.Name == "" || name != "" && s.Name != name:
		return Record{}, deadline{}, fmt.Errorf("%w: the record of %q is that of %q", abstractions.ErrNotSetUp, name, s.Name)
	case s.Token < 0 || s.Token > abstractions.MaxToken:
		return Record{}, deadline{}, fmt.Errorf("%w: the record of %q has a fencing token out of range: %d: store in its place the latest that a holder had", abstractions.ErrNotSetUp, name, s.Token)
	}
	r := s.Record
	r.AcquiredAt, r.IdleSince = timeOf(s.Acquired), timeOf(s.Idle)
	if r.ID != "" {
		r.TTL = fromMicros(s.TTL)
	}
	return r, s.deadline, nil
}

// same reports whether data says what encoded does, whatever the store has done to
// the form of the JSON.
func same(data, encoded []byte) bool {
	r, d, err := decode(data, "")
	if err != nil {
		return false
	}
	again, err := encode(&r, d)
	return err == nil && bytes.Equal(again, encoded)
}

// micros is d rounded up, and 0 for ever.
func micros(d time.Duration) int64 {
	if d == abstractions.Infinite {
		return 0
	}
	return ceilMicro(d)
}

func fromMicros(us int64) time.Duration {
	if us <= 0 || us > int64(abstractions.Infinite/time.Microsecond) {
		return abstractions.Infinite
	}
	return time.Duration(us) * time.Microsecond
}

// unixMicro is 0 for the zero time.
func unixMicro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
