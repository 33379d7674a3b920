package bloblease

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A name of a lease becomes the name of a blob, after Options.Prefix, like this:
//
//	A-Z a-z 0-9 - _ .   as they are
//	/                   :
//	anything else       ~XX for each byte of its UTF-8, in upper-case hex
//	. at the end        ~2E
//
// so "jobs/daily report" is the blob "jobs:daily~20report". Blob names know upper
// and lower case, so "My Lock" and "my lock" are two. A slash is not kept: where
// the account has a hierarchical namespace, "jobs" would be a file and a folder,
// and elsewhere a name of many slashes has more segments than are allowed. A name
// should not end with a dot
// (learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata).
//
// What would become longer than maxEncoded is cut to keptEncoded, and followed by
// ~~ and the SHA-256 of the name in hex; the record then has the name.
const (
	maxEncoded  = 800 // a blob's name has at most 1024 characters
	keptEncoded = 600
	hashMark    = "~~" // after a single ~ come hex digits
	upperHex    = "0123456789ABCDEF"
)

// naming turns names of leases into names of blobs and back.
type naming struct{ prefix string }

func (n naming) blob(name string) string { return n.prefix + encode(name) }

// isHashed reports whether a blob's name does not tell the lease's.
func isHashed(blob string) bool { return strings.Contains(blob, hashMark) }

// name is the inverse of blob. recorded is the name that the record has, if any.
func (n naming) name(blob, recorded string) (string, bool) {
	encoded, ok := strings.CutPrefix(blob, n.prefix)
	if !ok {
		return "", false
	}
	name := recorded
	if !isHashed(encoded) {
		if name, ok = decode(encoded); !ok {
			return "", false
		}
	}
	return name, name != "" && encode(name) == encoded
}

// list is the prefix of the blobs among which all names with a prefix are. A dot at
// its end may be the end of a name, and be written otherwise.
func (n naming) list(prefix string) string {
	encoded := strings.TrimSuffix(escape(prefix), ".")
	if len(encoded) > keptEncoded {
		encoded = encoded[:kept(encoded)]
	}
	return n.prefix + encoded
}

func encode(name string) string {
	encoded := escape(name)
	if strings.HasSuffix(encoded, ".") {
		encoded = encoded[:len(encoded)-1] + "~2E"
	}
	if len(encoded) <= maxEncoded {
		return encoded
	}
	sum := sha256.Sum256([]byte(name))
	return encoded[:kept(encoded)] + hashMark + hex.EncodeToString(sum[:])
}

// kept is where a long name is cut: not within an escape.
func kept(encoded string) int {
	cut := keptEncoded
	if i := strings.LastIndexByte(encoded[:cut], '~'); i > cut-3 {
		cut = i
	}
	return cut
}

func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c == '/':
			b.WriteByte(':')
		case plain(c):
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

func decode(encoded string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(encoded); i++ {
		switch c := encoded[i]; c {
		case ':':
			b.WriteByte('/')
		case '~':
			if i+3 > len(encoded) {
				return "", false
			}
			raw, err := hex.DecodeString(encoded[i+1 : i+3])
			if err != nil {
				return "", false
			}
			b.WriteByte(raw[0])
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}
