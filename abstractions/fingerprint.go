package abstractions

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Fingerprint identifies the claim that a record, an error, an event or an entry of history is
// about. The claim's ID is a key: Renew, Release and Adopt compare the ID. So only the holder
// gets the ID, from [Lease.ID] or [Lease.HandOver], and everything else shows the fingerprint.
// A holder finds its own lease by FingerprintOf(lease.ID()).
//
// The zero value stands for no claim. As text and in JSON a fingerprint is "fp_" and 16
// hexadecimal digits, a form that no ID has; the zero value is "".
type Fingerprint [8]byte

// fingerprintDomain distinguishes this use of SHA-256 from others. Together with an ID from [NewID] it fits into one block of the
// hash.
const fingerprintDomain = "leasing claim "

const fingerprintPrefix = "fp_" // an ID has no underscore

// FingerprintOf returns the first 8 bytes of the SHA-256 of "leasing claim " and the ID, or
// the zero value for "". An ID from [NewID] has 122 random bits, so its fingerprint does not reveal the ID. An ID chosen from few
// possible values can be guessed from its fingerprint.
func FingerprintOf(id string) Fingerprint {
	if id == "" {
		return Fingerprint{}
	}
	var text [len(fingerprintDomain) + MaxIDBytes]byte // on the stack for a valid ID
	sum := sha256.Sum256(append(append(text[:0], fingerprintDomain...), id...))
	return Fingerprint(sum[:8])
}

// IsZero reports whether the fingerprint stands for no claim.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

func (f Fingerprint) String() string {
	if f.IsZero() {
		return ""
	}
	return fingerprintPrefix + hex.EncodeToString(f[:])
}

// MarshalText returns the text of String.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads the text of String. The error matches [ErrInvalid] and does not
// quote the text, which may be an ID.
func (f *Fingerprint) UnmarshalText(text []byte) error {
	var read Fingerprint
	if len(text) > 0 {
		digits, ok := strings.CutPrefix(string(text), fingerprintPrefix)
		raw, err := hex.DecodeString(digits)
		if !ok || err != nil || len(raw) != len(read) {
			return &InvalidError{Field: "Fingerprint", Value: fmt.Sprintf("of %d bytes", len(text)), Want: `"fp_" and 16 hexadecimal digits`}
		}
		read = Fingerprint(raw)
	}
	*f = read
	return nil
}
