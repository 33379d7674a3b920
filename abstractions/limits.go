package abstractions

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits that hold on every backend.
const (
	// MaxNameBytes bounds the length of a lease's name.
	MaxNameBytes = 512
	// MaxOwnerBytes bounds the length of an owner.
	MaxOwnerBytes = 256
	// MaxReasonBytes bounds the length of a break's reason.
	MaxReasonBytes = 512
	// MaxIDBytes bounds the length of a claim ID.
	MaxIDBytes = 64
	// MaxMetadataBytes bounds the total size of a lease's metadata, keys and values.
	MaxMetadataBytes = 4096
)

// ValidateName checks that name is valid for a lease: UTF-8, 1 to MaxNameBytes
// bytes, no control characters. Names of the form component/purpose[/key] are recommended: metrics show only the component, and
// dashboards rely on this form.
func ValidateName(name string) error {
	return ValidateText("Name", name, MaxNameBytes)
}

// Validate checks an acquire against the limits common to all backends and those of the
// given backend. Providers call it before they send anything.
func (r AcquireRequest) Validate(c Capabilities) error {
	return cmp.Or(validateClaim(r.Name, r.ID, c), ValidateText("Owner", r.Owner, MaxOwnerBytes),
		ValidateMetadata(r.Metadata), c.ValidateTTL("TTL", r.TTL))
}

// Validate checks a renewal.
func (r RenewRequest) Validate(c Capabilities) error {
	return cmp.Or(validateClaim(r.Name, r.ID, c), ValidateMetadata(r.Metadata), c.ValidateTTL("TTL", r.TTL))
}

// Validate checks a release.
func (r ReleaseRequest) Validate(c Capabilities) error {
	return validateClaim(r.Name, r.ID, c)
}

// Validate checks a break.
func (r BreakRequest) Validate(c Capabilities) error {
	if err := c.ValidateName(r.Name); err != nil {
		return err
	}
	if r.IfToken < 0 || r.IfToken > MaxToken {
		return &InvalidError{Field: "IfToken", Value: r.IfToken, Want: "a fencing token, or 0 for any lease"}
	}
	if r.Grace < 0 {
		return &InvalidError{Field: "Grace", Value: r.Grace, Want: "0 or more"}
	}
	if r.Actor != "" {
		if err := ValidateText("Actor", r.Actor, MaxOwnerBytes); err != nil {
			return err
		}
	}
	if r.Reason != "" {
		return ValidateText("Reason", r.Reason, MaxReasonBytes)
	}
	return nil
}

// Validate checks an inspection.
func (r InspectRequest) Validate(c Capabilities) error {
	return c.ValidateName(r.Name)
}

// Validate checks a registration of a waiter. The owner may be empty.
func (r WaitRequest) Validate(c Capabilities) error {
	err := validateClaim(r.Name, r.ID, c)
	if err == nil && r.Owner != "" {
		err = ValidateText("Owner", r.Owner, MaxOwnerBytes)
	}
	return err
}

// Validate checks a request for the waiters of a name.
func (r WaitersRequest) Validate(c Capabilities) error {
	return c.ValidateName(r.Name)
}

// PageLimit returns Limit with its default and bound applied.
func (r ListRequest) PageLimit() int { return pageLimit(r.Limit) }

// PageLimit returns Limit with its default and bound applied.
func (r HistoryRequest) PageLimit() int { return pageLimit(r.Limit) }

func pageLimit(limit int) int {
	if limit <= 0 {
		return 100
	}
	return min(limit, 1000)
}

func validateClaim(name, id string, c Capabilities) error {
	if err := c.ValidateName(name); err != nil {
		return err
	}
	if id == "" || len(id) > MaxIDBytes {
		return &InvalidError{Field: "ID", Value: redactID(id), Want: fmt.Sprintf("1 to %d letters, digits or hyphens, not %d: see NewID", MaxIDBytes, len(id))}
	}
	for i := range len(id) {
		if !idByte[id[i]] {
			return &InvalidError{Field: "ID", Value: redactID(id), Want: "letters, digits and hyphens only: see NewID"}
		}
	}
	return nil
}

// idByte lists the bytes that an ID may contain. A table avoids branches, which are hard
// to predict for the random digits of an ID.
var idByte = func() (table [256]bool) {
	for _, ch := range "0123456789-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		table[ch] = true
	}
	return table
}()

// NewID returns a random claim ID: a version 4 UUID (RFC 9562) in its usual
// lower-case form, which every backend accepts. It comes from the system's
// secure random source, since the ID alone distinguishes claims.
func NewID() string {
	var raw [16]byte
	rand.Read(raw[:]) // never fails: see crypto/rand
	raw[6] = raw[6]&0x0f | 0x40
	raw[8] = raw[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[0:8], raw[0:4])
	hex.Encode(text[9:13], raw[4:6])
	hex.Encode(text[14:18], raw[6:8])
	hex.Encode(text[19:23], raw[8:10])
	hex.Encode(text[24:36], raw[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// ValidateName is like the function ValidateName, with the bound of the backend.
func (c Capabilities) ValidateName(name string) error {
	limit := MaxNameBytes
	if c.MaxNameBytes > 0 {
		limit = min(limit, c.MaxNameBytes)
	}
	return ValidateText("Name", name, limit)
}

// ValidateText checks a text that people read, such as an owner: UTF-8, 1 to
// limit bytes, no control characters. The error matches ErrInvalid and names
// the field.
func ValidateText(field, text string, limit int) error {
	if text == "" || len(text) > limit {
		return &InvalidError{Field: field, Value: text, Want: fmt.Sprintf("1 to %d bytes, not %d", limit, len(text))}
	}
	for i := range len(text) {
		if text[i] < 0x20 || text[i] >= 0x7f {
			return validateRunes(field, text)
		}
	}
	return nil // printable ASCII, the usual case
}

func validateRunes(field, text string) error {
	if !utf8.ValidString(text) {
		return &InvalidError{Field: field, Value: text, Want: "valid UTF-8"}
	}
	for _, r := range text {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return &InvalidError{Field: field, Value: text, Want: "no control characters"}
		}
	}
	return nil
}

// ValidateMetadata checks the metadata of a lease: keys must pass ValidateText, values
// must be UTF-8 without NUL, and the total must not exceed MaxMetadataBytes.
func ValidateMetadata(metadata map[string]string) error {
	total := 0
	for key, value := range metadata {
		if err := ValidateText("Metadata key", key, MaxMetadataBytes); err != nil {
			return err
		}
		if !utf8.ValidString(value) {
			return &InvalidError{Field: fmt.Sprintf("Metadata[%q]", key), Value: value, Want: "valid UTF-8"}
		}
		if strings.IndexByte(value, 0) >= 0 {
			return &InvalidError{Field: fmt.Sprintf("Metadata[%q]", key), Value: value, Want: "no NUL characters"}
		}
		total += len(key) + len(value)
	}
	if total > MaxMetadataBytes {
		return &InvalidError{Field: "Metadata", Value: fmt.Sprintf("%d bytes", total), Want: fmt.Sprintf("at most %d bytes of keys and values", MaxMetadataBytes)}
	}
	return nil
}

// ValidateTTL checks a TTL against the bounds of the backend. The error names the field.
func (c Capabilities) ValidateTTL(field string, ttl time.Duration) error {
	switch {
	case ttl <= 0:
		return &InvalidError{Field: field, Value: ttl, Want: "more than 0"}
	case ttl == Infinite:
		if !c.Infinite {
			most := "a finite TTL"
			if c.MaxTTL > 0 {
				most = fmt.Sprintf("at most %v", c.MaxTTL)
			}
			return &InvalidError{Field: field, Value: Infinite, Want: fmt.Sprintf("%s: %s has no infinite leases", most, c.Provider)}
		}
	case ttl < c.MinTTL:
		return &InvalidError{Field: field, Value: ttl, Want: fmt.Sprintf("at least %v, the minimum of %s", c.MinTTL, c.Provider)}
	case c.MaxTTL > 0 && ttl > c.MaxTTL:
		return &InvalidError{Field: field, Value: ttl, Want: fmt.Sprintf("at most %v, the maximum of %s", c.MaxTTL, c.Provider)}
	}
	return nil
}
