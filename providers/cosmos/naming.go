package cosmoslease

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A name's document is called
//
//	name          if there is no Options.Prefix
//	prefix:name   if there is one
//
// where letters, digits and - _ . of ASCII stand for themselves, a dot not in the
// first place, and every other byte is written as ~ and two upper-case hexadecimal
// digits: "jobs/daily" is jobs~2Fdaily. So no name has a character that an ID may
// not have, or that a URL would change (/ \ ? # and dots alone), and different
// names never share a document. IDs of the service tell case apart.
//
// What would be longer than maxPlainID is cut, and ends in ~~ and the SHA-256 of
// the name in lower case: the document has the name in full as well. The service
// takes 1023 bytes: learn.microsoft.com/azure/cosmos-db/concepts-limits.
type naming struct{ prefix string }

const (
	maxPlainID = 250
	cutID      = 180
)

// id is the ID of a name's document.
func (n naming) id(name string) string {
	id := n.begin() + escape(name)
	if len(id) <= maxPlainID {
		return id
	}
	sum := sha256.Sum256([]byte(name))
	return id[:cutID] + "~~" + hex.EncodeToString(sum[:])
}

// begin is how the IDs of all documents begin.
func (n naming) begin() string {
	if n.prefix == "" {
		return ""
	}
	return escape(n.prefix) + ":"
}

// ping is an ID that no name has.
func (n naming) ping() string { return n.begin() + "~~ping" }

func escape(text string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(text) + 8)
	for i := range len(text) {
		c := text[i]
		if plain(c) && (c != '.' || i > 0) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('~')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}
