package providerkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxMarks bounds the combining marks that Visible leaves on a letter. Three are common in Hebrew and in
// decomposed Vietnamese.
const maxMarks = 3

// Visible makes every rune of an untrusted text visible on a page or a terminal. Runes that cannot be seen, or
// change how the rest looks, become Go escapes such as \u202e: control and format characters, spaces other than
// U+0020, blank letters, variation selectors, and combining marks that follow no letter or at least three other
// marks. Backslashes are not escaped, so the result is for people, and can't be decoded.
func Visible(text string) string {
	return escapeInvisible(text, func(b []byte, r rune) []byte {
		quoted := strconv.QuoteRuneToASCII(r)
		return append(b, quoted[1:len(quoted)-1]...)
	})
}

// WriteJSON writes a value as one line of JSON, in one Write. Runes that Visible escapes become JSON escapes, so
// that the line is as safe on a terminal as the result of Visible, and a parser reads the same value.
func WriteJSON(w io.Writer, value any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	text := escapeInvisible(strings.TrimSuffix(line.String(), "\n"), func(b []byte, r rune) []byte {
		for _, unit := range utf16.Encode([]rune{r}) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
		return b
	})
	_, err := io.WriteString(w, text+"\n")
	return err
}

// escapeInvisible escapes the runes of a text that can't be seen.
func escapeInvisible(text string, escape func([]byte, rune) []byte) string {
	var b []byte
	marks := maxMarks // on the latest letter; no mark may precede the first letter
	for _, r := range text {
		mark := unicode.Is(unicode.M, r)
		switch {
		case !isVisible(r), mark && marks == maxMarks:
			b = escape(b, r)
			marks = maxMarks
			continue
		case mark:
			marks++
		default:
			marks = 0
		}
		b = utf8.AppendRune(b, r)
	}
	return string(b)
}

// isVisible reports whether a rune leaves ink, or is a space. U+2800 is a Braille cell without dots.
func isVisible(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && r != '\u2800' &&
		!unicode.In(r, unicode.White_Space, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
