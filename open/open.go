// Package open opens the provider that a URL names, for an application that is told
// its backend by its configuration.
//
//	provider, err := open.URL(ctx, os.Getenv("LEASING_URL"), sqllease.Opener(), redislease.Opener())
//	if err != nil {
//		return err
//	}
//	defer provider.Close()
//
// The application links the providers that it lists, and no others: nothing registers
// itself. One that knows its backend calls that one's Open or OpenURL, which return
// its own type.
package open

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
)

// URL opens a provider with the first opener that has the URL's scheme, and otherwise
// returns an *abstractions.InvalidError that lists the schemes. What the rest of a URL
// means is in the documentation of the provider's OpenURL. No error shows it, since it
// may hold a password.
func URL(ctx context.Context, rawURL string, openers ...abstractions.Opener) (abstractions.Provider, error) {
	scheme := Scheme(rawURL)
	for _, o := range openers {
		if slices.Contains(o.Schemes, scheme) {
			return o.Open(ctx, rawURL)
		}
	}
	return nil, &abstractions.InvalidError{Field: "URL scheme", Value: scheme, Want: "one that begins with " + Schemes(openers...)}
}

// Schemes is what the URLs of some providers begin with, for people to read:
// "redis://, rediss:// or unix://".
func Schemes(openers ...abstractions.Opener) string {
	var all []string
	for _, o := range openers {
		for _, scheme := range o.Schemes {
			all = append(all, scheme+"://")
		}
	}
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// isScheme is RFC 3986, section 3.1.
var isScheme = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*$`)

// Scheme is what stands before "://" in a URL, and "" where that is none: a text
// without one may be a password in the wrong place.
func Scheme(rawURL string) string {
	scheme, _, found := strings.Cut(rawURL, "://")
	if !found || !isScheme.MatchString(scheme) {
		return ""
	}
	return scheme
}
