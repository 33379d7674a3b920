package output

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
)

// Record is a leasing.Record in the form of the JSON output. Times are the backend's, and durations
// are in seconds.
type Record struct {
	Name        string              `json:"name"`
	Held        bool                `json:"held"`
	Owner       string              `json:"owner,omitempty"`
	Fingerprint leasing.Fingerprint `json:"fingerprint,omitzero"`
	Token       int64               `json:"token"`
	TTL         float64             `json:"ttl_s,omitempty"`
	Infinite    bool                `json:"infinite,omitempty"`
	Remaining   *float64            `json:"remaining_s,omitempty"` // absent if unknown
	AcquiredAt  time.Time           `json:"acquired_at,omitzero"`
	RenewedAt   time.Time           `json:"renewed_at,omitzero"` // by the acquire or a renewal; absent if unknown
	ExpiresAt   time.Time           `json:"expires_at,omitzero"`
	Breaking    bool                `json:"breaking,omitempty"`
	BrokenBy    string              `json:"broken_by,omitempty"`
	BreakReason string              `json:"break_reason,omitempty"`
	Unconfirmed bool                `json:"unconfirmed,omitempty"`
	Metadata    map[string]string   `json:"metadata,omitempty"`
	Waiters     []Waiter            `json:"waiters,omitempty"` // only inspect sets this field
}

// Waiter is a leasing.Waiting in the form of the JSON output.
type Waiter struct {
	Owner       string              `json:"owner"`
	Fingerprint leasing.Fingerprint `json:"fingerprint"`
	Since       time.Time           `json:"since"`
	Waited      float64             `json:"waited_s"`
}

// RecordOf returns a record in the form that the command shows.
func RecordOf(r leasing.Record) Record {
	s := Record{Name: r.Name, Held: r.Held, Token: r.Token}
	if !r.Held {
		return s // the other fields may belong to an earlier holder
	}
	s.Owner, s.Fingerprint, s.AcquiredAt, s.ExpiresAt, s.Metadata = r.Owner, r.Fingerprint, r.AcquiredAt, r.ExpiresAt, r.Metadata
	s.RenewedAt, _ = r.LastRenewed()
	s.Breaking, s.BrokenBy, s.BreakReason, s.Unconfirmed = r.Breaking, r.BrokenBy, r.BreakReason, r.Unconfirmed
	if s.Infinite = r.TTL == leasing.Infinite; !s.Infinite {
		s.TTL = r.TTL.Seconds()
	}
	if left, known := r.Remaining(); known {
		seconds := left.Seconds()
		s.Remaining = &seconds
	}
	return s
}

// left returns the time left as a text for people.
func (s Record) left() string {
	switch {
	case !s.Held:
		return "-"
	case s.Infinite:
		return "for ever"
	case s.Remaining == nil:
		return "unknown"
	}
	return Rounded(time.Duration(*s.Remaining * float64(time.Second)))
}

// state returns the state of the name as a text for people.
func (s Record) state() string {
	switch {
	case !s.Held && s.Token == 0:
		return "never held"
	case !s.Held:
		return "free"
	case s.Breaking:
		return "ending"
	}
	return "held"
}

// Holder returns the holder of the name, as far as it is known.
func (s Record) Holder() string {
	switch {
	case !s.Held:
		return "-"
	case s.Unconfirmed:
		return "not confirmed"
	}
	return s.Owner
}

// metadata returns the metadata on one line, sorted by key.
func (s Record) metadata() string {
	var pairs []string
	for key, value := range s.Metadata {
		pairs = append(pairs, key+"="+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

// Records prints records, one line each.
func (p *Printer) Records(records []Record) error {
	return All(p, []string{"NAME", "STATE", "OWNER", "TOKEN", "LEFT", "METADATA"}, records, func(s Record) []string {
		return []string{s.Name, s.state(), s.Holder(), strconv.FormatInt(s.Token, 10), s.left(), s.metadata()}
	})
}

// Detail prints all fields of one record.
func (p *Printer) Detail(s Record) error {
	if p.Format == "json" {
		return p.JSON(s)
	}
	rows := [][]string{{"name", s.Name}, {"state", s.state()}, {"token", strconv.FormatInt(s.Token, 10)}}
	add := func(key, value string) {
		if value != "" {
			rows = append(rows, []string{key, value})
		}
	}
	if s.Held {
		add("owner", s.Holder())
		add("fingerprint", s.Fingerprint.String())
		if !s.AcquiredAt.IsZero() {
			add("since", s.AcquiredAt.UTC().Format(time.RFC3339))
		}
		if !s.RenewedAt.IsZero() {
			add("renewed", s.RenewedAt.UTC().Format(time.RFC3339))
		}
		add("left", s.left())
		add("broken by", s.BrokenBy)
		add("reason", s.BreakReason)
		add("metadata", s.metadata())
	}
	for i, w := range s.Waiters {
		add("waiter "+strconv.Itoa(i+1), w.Owner+", for "+Rounded(time.Duration(w.Waited*float64(time.Second))))
	}
	return p.Table(rows)
}
