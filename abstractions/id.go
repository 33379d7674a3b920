package abstractions

import (
	"crypto/rand"
	"encoding/hex"
)

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
