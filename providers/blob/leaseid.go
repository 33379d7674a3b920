package bloblease

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// guid is the form that leasing.NewID has. Upper case is left out: the service
// does not tell it from lower case, and to the core these are two IDs.
var guid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// leaseID is the lease ID of a claim: its ID, so that an acquire which is sent
// again is the same acquire to the service. The service takes GUIDs only
// (learn.microsoft.com/rest/api/storageservices/lease-blob, x-ms-proposed-lease-id);
// an ID of another form is hashed into one, version 8 of RFC 9562, which no
// NewID has.
func leaseID(id string) string {
	if guid.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	text := hex.EncodeToString(sum[:16])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
