package httpguard

import (
	"net/http"
	"regexp"
	"strings"
)

var (
	// ids begin what Azure's services put behind a message: IDs and a time.
	ids = regexp.MustCompile(`\s*(RequestId|ActivityId|Time):\s?\S`)
	// signed is of a sentence that quotes what was signed, or may quote a signature, a key or a token: in quotes, or by its form.
	signed = regexp.MustCompile(`(?i)to[-_ ]?sign\b|\bsignature\b.*['"]|\b(computed|expected) signature|[\w+/-]{40,}(=|%3d)|\beyJ[\w-]{10,}|\bsig=`)
)

// Sentences is a service's message about a refusal, for an error: on one line, without the credentials
// of the request, which may be nil. A service that refuses a signature may quote the signature, or what was
// signed. The text ends before the first such sentence, and may be "".
func Sentences(req *http.Request, message string) string {
	if at := ids.FindStringIndex(message); at != nil {
		message = message[:at[0]]
	}
	var kept strings.Builder
	for sentence := range strings.SplitAfterSeq(visible(message), ". ") {
		if signed.MatchString(sentence) {
			break
		}
		kept.WriteString(sentence)
	}
	return strings.TrimRight(oneLine(req, kept.String()), " .")
}
