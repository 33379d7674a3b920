package providerkit

import (
	"strconv"
	"strings"
	"unicode"
)

// maxMarks bounds the combining marks that Visible leaves on a letter. Three are common in Hebrew and in
// decomposed Vietnamese.
const maxMarks = 3

// Visible returns a text that others have chosen as a person can see it, on a page or a terminal.
// Runes that cannot be seen, or change how the rest looks, become Go escapes such as \u202e: control
// and format characters, spaces but U+0020, blank letters, variation selectors, and each combining
// mark without a letter or after the third on a letter. A backslash stays as it is, so the result is for people
// alone.
func Visible(text string) string {
	var b strings.Builder
	marks := maxMarks // on the latest letter; before the first there is none
	for _, r := range text {
		mark := unicode.Is(unicode.M, r)
		switch {
		case !isVisible(r), mark && marks == maxMarks:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			marks = maxMarks
			continue
		case mark:
			marks++
		default:
			marks = 0
		}
		b.WriteRune(r)
	}
	return b.String()
}

// isVisible reports whether a rune leaves ink, or is a space. U+2800 is a Braille cell without dots.
func isVisible(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && r != '\u2800' &&
		!unicode.In(r, unicode.White_Space, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
