// Package open opens a provider by URL, for applications whose configuration
// chooses the backend.
//
//	provider, err := open.URL(ctx, os.Getenv("LEASING_URL"), postgreslease.Opener(), redislease.Opener())
//	if err != nil {
//		return err
//	}
//	defer provider.Close()
//
// The application links only the providers that it lists: there is no global
// registration. An application with a fixed backend calls that provider's Open or
// OpenURL, which return the concrete type.
package open

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
)

// URL opens a provider with the first opener that has the URL's scheme, and otherwise
// returns an *abstractions.InvalidError that lists the schemes. The provider's OpenURL
// documents the rest of the URL. No error shows that rest, since it may contain a
// password.
func URL(ctx context.Context, rawURL string, openers ...abstractions.Opener) (abstractions.Provider, error) {
	scheme := Scheme(rawURL)
	for _, o := range openers {
		if slices.Contains(o.Schemes, scheme) {
			return o.Open(ctx, rawURL)
		}
	}
	return nil, &abstractions.InvalidError{Field: "URL scheme", Value: scheme, Want: "one that begins with " + Schemes(openers...)}
}

// Schemes returns the schemes of the openers' URLs as text for people:
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

// isScheme matches a URL scheme: RFC 3986, section 3.1.
var isScheme = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*$`)

// Scheme returns the part of a URL before "://", or "" if there is no valid
// scheme: such a text may be a password in the wrong place.
func Scheme(rawURL string) string {
	scheme, _, found := strings.Cut(rawURL, "://")
	if !found || !isScheme.MatchString(scheme) {
		return ""
	}
	return scheme
}
