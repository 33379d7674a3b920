package cas

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Naming turns names of leases into names that a store accepts. Different names stay different. After Prefix, each character
// becomes
//
//	A-Z a-z 0-9 - _ .   as they are
//	/                   Slash, or as anything else
//	anything else       ~XX for each byte, in upper-case hexadecimal digits
//	. first or last     ~2E
//
// so "jobs/daily report" is jobs~2Fdaily~20report. A result longer than Max, not
// counting Prefix, is cut, and ends in ~~ and the SHA-256 of the name in
// lower-case hexadecimal digits. So a record must store the name as well. The
// store must be case-sensitive.
type Naming struct {
	Prefix string // as it is
	Slash  byte   // unless 0, stands for a slash; neither ~ nor any character above
	Max    int    // 100 or more
}

const (
	hashMark = "~~" // a single ~ is followed by a hexadecimal digit
	upperHex = "0123456789ABCDEF"
)

// Encode returns the name that a lease called name has in the store.
func (n Naming) Encode(name string) string { return n.Prefix + n.encode(name) }

// EncodePrefix returns a common prefix of the stored names of all leases whose names begin with prefix. The stored names of other
// leases may also begin with that prefix.
func (n Naming) EncodePrefix(prefix string) string {
	encoded := strings.TrimSuffix(n.escape(prefix), ".") // the last dot of a name is written as ~2E
	return n.Prefix + encoded[:n.cut(encoded)]
}

func (n Naming) encode(name string) string {
	encoded := n.escape(name)
	if strings.HasSuffix(encoded, ".") {
		encoded = encoded[:len(encoded)-1] + "~2E"
	}
	if len(encoded) <= n.Max {
		return encoded
	}
	sum := sha256.Sum256([]byte(name))
	return encoded[:n.cut(encoded)] + hashMark + hex.EncodeToString(sum[:])
}

// cut returns the length to which a long name is cut, never within an escape.
func (n Naming) cut(encoded string) int {
	cut := n.Max - len(hashMark) - hex.EncodedLen(sha256.Size)
	if cut >= len(encoded) {
		return len(encoded)
	}
	if i := strings.LastIndexByte(encoded[:cut], '~'); i > cut-3 {
		return i
	}
	return cut
}

func (n Naming) escape(name string) string {
	var b strings.Builder
	b.Grow(len(name) + 8)
	for i := range len(name) {
		switch c := name[i]; {
		case c == '/' && n.Slash != 0:
			b.WriteByte(n.Slash)
		case plain(c) && (c != '.' || i > 0):
			b.WriteByte(c)
		default:
			b.WriteByte('~')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}
