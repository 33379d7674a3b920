package httpguard

import (
	"net/http"
	"regexp"
	"strings"
)

var (
	// idSuffix matches the start of the IDs and the time that Azure's services append to a message.
	idSuffix = regexp.MustCompile(`\s*(RequestId|ActivityId|Time):\s?\S`)
	// quotesSecret matches a sentence that quotes the signed text, or that may contain a signature, a key or a token, judging by
	// quotation marks or by the form of a word.
	quotesSecret = regexp.MustCompile(`(?i)to[-_ ]?sign\b|\bsignature\b.*['"]|\b(computed|expected) signature|[\w+/-]{40,}(=|%3d)|\beyJ[\w-]{10,}|\bsig=`)
)

// Sentences returns a service's message about a refusal, for an error text: on one line, without the
// credentials of the request, which may be nil. A service that refuses a signature may quote the signature,
// or the signed text. The text ends before the first such sentence, and may be "".
func Sentences(req *http.Request, message string) string {
	if at := idSuffix.FindStringIndex(message); at != nil {
		message = message[:at[0]]
	}
	var kept strings.Builder
	for sentence := range strings.SplitAfterSeq(visible(message), ". ") {
		if quotesSecret.MatchString(sentence) {
			break
		}
		kept.WriteString(sentence)
	}
	return strings.TrimRight(oneLine(req, kept.String()), " .")
}
