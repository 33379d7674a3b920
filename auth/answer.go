package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// answer is what Entra ID, or whoever else was asked, answered instead of a token.
type answer struct {
	status int
	header http.Header
	body   []byte // nil where it could not be read
}

// answerIn returns the answer in an error of azidentity, which has read it to its
// end.
func answerIn(err error) (said answer, found bool) {
	var failed *azidentity.AuthenticationFailedError
	if !errors.As(err, &failed) || failed.RawResponse == nil {
		return answer{}, false
	}
	said = answer{status: failed.RawResponse.StatusCode, header: failed.RawResponse.Header}
	if failed.RawResponse.Body != nil {
		said.body, _ = runtime.Payload(failed.RawResponse) // it is for people
	}
	return said, true
}

// String is the status, and what is said about it: Entra ID's error and
// error_description, the managed identity endpoints' message.
func (a answer) String() string {
	var said struct {
		Error       any    `json:"error"`
		Description string `json:"error_description"`
		Message     string `json:"message"`
	}
	text := fmt.Sprintf("status %d", a.status)
	if json.Unmarshal(a.body, &said) != nil {
		return text
	}
	for _, part := range []any{said.Error, said.Description, said.Message} {
		if s, _ := part.(string); s != "" {
			text += ": " + shortened(oneLine(s))
		}
	}
	return text
}

// retryAfter reads the header's form in seconds, which Entra ID uses.
func (a answer) retryAfter() time.Duration {
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// withoutBody is azidentity's error for an answer whose text may not be shown. It
// keeps what decides over a retry.
func (a answer) withoutBody() *azidentity.AuthenticationFailedError {
	return &azidentity.AuthenticationFailedError{RawResponse: &http.Response{
		Status: strconv.Itoa(a.status), StatusCode: a.status, Header: a.header, Body: http.NoBody,
	}}
}

func shortened(text string) string {
	const most = 400 // bytes; Entra ID's messages are about 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
