package chaos

import "strings"

// fits reports whether text has the form of a pattern, in which * stands for
// any number of characters, slashes among them.
func fits(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

// fitsAny reports whether there are no patterns, or text fits one. No text fits none.
func fitsAny(patterns []string, text string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, pattern := range patterns {
		if text != "" && fits(pattern, text) {
			return true
		}
	}
	return false
}
