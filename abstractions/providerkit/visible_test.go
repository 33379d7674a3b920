package providerkit_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func TestTrap_T238_VisibleSpellsOutWhatCannotBeSeen(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"jobs/report 7":                 "jobs/report 7",
		"C:\\jobs":                      "C:\\jobs",
		"später, 日本, ☂":                 "später, 日本, ☂",
		"a\u202eb":                      `a\u202eb`,
		"\u2066a\u2069":                 `\u2066a\u2069`,
		"a\u200bb\u200d\ufeff":          `a\u200bb\u200d\ufeff`,
		"a\u00adb":                      `a\u00adb`,
		"a\u00a0b\u2003c\u3000":         `a\u00a0b\u2003c\u3000`,
		"a\u2028b\u0085\n\t\x1b[2J\x7f": `a\u2028b\u0085\n\t\x1b[2J\x7f`,
		"\u3164\u115f\u2800\uffa0":      `\u3164\u115f\u2800\uffa0`, // blank letters
		"a\ufe0f\U000e0100\U000e0041":   `a\ufe0f\U000e0100\U000e0041`,
		"e\u0301":                       "e\u0301",
		"\u0301e":                       `\u0301e`,
		"\u202e\u0301":                  `\u202e\u0301`,
		"e\u0301\u0302\u0303o\u0301":    "e\u0301\u0302\u0303o\u0301",
		"\xff":                          "\ufffd",
	} {
		require.Equal(t, want, providerkit.Visible(text), "%+q", text)
	}
	tower := "e" + strings.Repeat("\u0301", 150)
	require.Equal(t, "e\u0301\u0301\u0301"+strings.Repeat(`\u0301`, 147), providerkit.Visible(tower))
}

// A value is read back as it was, and its line has no rune that Visible would escape.
func TestTrap_T270_JSONSpellsOutWhatCannotBeSeen(t *testing.T) {
	for text, want := range map[string]string{
		"später <&>":                `"später <&>"`,
		"a\u202eb":                  `"a\u202eb"`,
		"\u2066a\u2069\u200b":       `"\u2066a\u2069\u200b"`,
		"\x1b[2J\x7f\u0085":         `"\u001b[2J\u007f\u0085"`,
		"\U000e0041":                `"\udb40\udc41"`,
		"e\u0301\u0301\u0301\u0301": "\"e\u0301\u0301\u0301\\u0301\"",
	} {
		var line bytes.Buffer
		require.NoError(t, providerkit.WriteJSON(&line, map[string]string{text: text}))
		require.Equal(t, "{"+want+":"+want+"}\n", line.String(), "%+q", text)
		var back map[string]string
		require.NoError(t, json.Unmarshal(line.Bytes(), &back))
		require.Equal(t, map[string]string{text: text}, back)
		require.Equal(t, strings.TrimSuffix(line.String(), "\n"), providerkit.Visible(strings.TrimSuffix(line.String(), "\n")))
	}
}
