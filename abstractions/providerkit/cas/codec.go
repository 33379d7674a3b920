package cas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
)

// format is a version of stored records, with the steps that update records of earlier versions. A reader refuses a version that
// it does not know.
type format struct {
	version int // of the records that are written
	// steps bring the fields of a record up to date: the first step from version 1 to version 2, and so on. They change
	// the record in memory. The next verb that writes stores the updated record, on condition that the stored one is unchanged.
	steps []func(fields map[string]json.RawMessage) error
}

// currentFormat is the format of release 0.1.0. The rules for the next format are in docs/design.md.
var currentFormat = &format{version: 1}

// stored is the JSON of a record. Times are in microseconds since 1970, by the store's clock.
type stored struct {
	Version int `json:"v"`
	providerkit.Record
	TTL      int64 `json:"ttl_us,omitempty"` // 0 if infinite
	Acquired int64 `json:"acquired_us,omitempty"`
	Idle     int64 `json:"idle_us,omitempty"`
	deadline
}

// deadline is the end of a lease. In a store on one host only Host is set, and in any other store only the other fields.
type deadline struct {
	// Write identifies the write that set the deadline. It is random, so that no
	// earlier write can be mistaken for a write whose outcome is ambiguous.
	Write string `json:"write,omitempty"`
	// Lasts is the time from that write to the end; 0 for an infinite lease.
	Lasts int64 `json:"lasts_us,omitempty"`
	// Ends, unless 0, is the end by the service's clock. It is set if the record has been
	// written again since, for another reason.
	Ends int64               `json:"ends_us,omitempty"`
	Host *hostclock.Deadline `json:"host,omitempty"`
}

func (f *format) encode(r *providerkit.Record, d deadline) ([]byte, error) {
	return json.Marshal(stored{f.version, *r, micros(r.TTL), unixMicro(r.AcquiredAt), unixMicro(r.IdleSince), d})
}

// decode reads records that encode wrote, in this version or an earlier version. It refuses a record of another name, and a
// record that this code does not understand.
func (f *format) decode(data []byte, name string) (providerkit.Record, deadline, error) {
	var s stored
	err := json.Unmarshal(data, &s)
	if s.Version != f.version {
		s = stored{}
		if err = f.update(data, name, &s); errors.Is(err, abstractions.ErrNotSetUp) {
			return providerkit.Record{}, deadline{}, err
		}
	}
	switch {
	case err != nil:
		return providerkit.Record{}, deadline{}, fmt.Errorf("%w: the content stored for %q is not a lease record: %w", abstractions.ErrNotSetUp, name, err)
	case s.Name == "" || name != "" && s.Name != name:
		return providerkit.Record{}, deadline{}, fmt.Errorf("%w: the record stored for %q is that of %q", abstractions.ErrNotSetUp, name, s.Name)
	case s.Token < 0 || s.Token > abstractions.MaxToken:
		return providerkit.Record{}, deadline{}, fmt.Errorf("%w: the record of %q has a fencing token out of range: %d: replace it with the latest token of a holder", abstractions.ErrNotSetUp, name, s.Token)
	}
	r := s.Record
	r.AcquiredAt, r.IdleSince = timeOf(s.Acquired), timeOf(s.Idle)
	if r.ID != "" {
		r.TTL = fromMicros(s.TTL)
	}
	return r, s.deadline, nil
}

// update reads a record of an earlier version.
func (f *format) update(data []byte, name string, into *stored) error {
	var fields map[string]json.RawMessage
	var found struct {
		Version int `json:"v"`
	}
	if err := errors.Join(json.Unmarshal(data, &fields), json.Unmarshal(data, &found)); err != nil {
		return err
	}
	switch {
	case found.Version > f.version:
		return fmt.Errorf("%w: the record of %q has version %d, and this release knows versions up to %d: use the newer release", abstractions.ErrNotSetUp, name, found.Version, f.version)
	case found.Version < 1:
		return errors.New("the record has no version")
	}
	for _, step := range f.steps[found.Version-1:] {
		if err := step(fields); err != nil {
			return err
		}
	}
	updated, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return json.Unmarshal(updated, into)
}

// same reports whether data and encoded are the same record, even if the store has reformatted the JSON.
func (f *format) same(data, encoded []byte) bool {
	r, d, err := f.decode(data, "")
	if err != nil {
		return false
	}
	again, err := f.encode(&r, d)
	return err == nil && bytes.Equal(again, encoded)
}

// micros returns d in microseconds, rounded up; 0 for abstractions.Infinite.
func micros(d time.Duration) int64 {
	if d == abstractions.Infinite {
		return 0
	}
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

func fromMicros(us int64) time.Duration {
	if us <= 0 || us > int64(abstractions.Infinite/time.Microsecond) {
		return abstractions.Infinite
	}
	return time.Duration(us) * time.Microsecond
}

// unixMicro returns 0 for the zero time.
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
