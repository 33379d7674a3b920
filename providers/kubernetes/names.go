package kuberneteslease

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

const (
	longestSlug = 100
	hashMark    = "--"
	hashBytes   = 16
)

var (
	// subdomain is what Kubernetes takes for the name of an object: RFC 1123.
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// hashed is what names end in that encode has made up.
	hashed = regexp.MustCompile(`--[0-9a-f]{32}$`)
	others = regexp.MustCompile(`[^a-z0-9]+`)
)

// encode returns the name of the object of a lease: the same where Kubernetes takes it, so
// that client-go's candidates mean the same lease. Otherwise it is what can be read of the
// name, and the beginning of its SHA-256.
func encode(name string) string {
	if len(name) <= 253 && subdomain.MatchString(name) && !hashed.MatchString(name) {
		return name
	}
	slug := strings.Trim(others.ReplaceAllString(strings.ToLower(name), "-"), "-")
	slug = cmp.Or(strings.TrimRight(slug[:min(len(slug), longestSlug)], "-"), "lease")
	sum := sha256.Sum256([]byte(name))
	return slug + hashMark + hex.EncodeToString(sum[:hashBytes])
}
