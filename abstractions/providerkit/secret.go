package providerkit

import (
	"fmt"
	"strings"
)

// Secret is a text that no print, log, JSON or error shows, even as an unexported
// field of another struct. The zero Secret is empty.
type Secret struct {
	text *string // package fmt shows a nested pointer as an address
}

// NewSecret hides a text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.text == nil }

// Format prints NotShown, for all verbs.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, string(NotShown)) }

// MarshalText returns NotShown, for JSON and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(NotShown), nil }

// UnmarshalText reads a secret.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// unquotedText is a value of an InvalidError that is shown without quotes.
type unquotedText string

// NotShown replaces a secret as the value of an InvalidError.
const NotShown unquotedText = "(not shown)"

// Shown returns text as the value of an InvalidError: NotShown if it may be a
// secret in the wrong place. Keys, tokens and most passwords are longer than 24
// characters or have characters other than letters, digits and "-_./:".
func Shown(text string) any {
	const longest = 24
	odd := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("-_./:", r)
	}
	if len(text) > longest || strings.ContainsFunc(text, odd) {
		return NotShown
	}
	return text
}
