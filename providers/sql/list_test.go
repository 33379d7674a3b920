package sqllease

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAfterIsTheFirstNameBeyondAPrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"":                   "",
		"a":                  "b",
		"jobs/":              "jobs0",
		"ä":                  "å",
		"a\U0010FFFF":        "b",
		"\U0010FFFF":         "",
		"\uD7FF":             "\uE000",
		"a\u007f":            "a\u0080",
		"x\uFFFF":            "x\U00010000",
		"\U0010FFFEz\x00\t ": "\U0010FFFEz\x00\t!",
	} {
		bound := after(prefix)
		if want == "" {
			require.Nil(t, bound, "%q", prefix)
			continue
		}
		require.Equal(t, want, *bound, "%q", prefix)
		require.Less(t, prefix+"\U0010FFFF\U0010FFFF", *bound)
	}
}
