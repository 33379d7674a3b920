package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/distributedleasing/leasing"
)

// Error is a failure to get a token. It matches leasing.ErrDenied if a source of tokens, such as
// Entra ID, refused the identity or found no identity; leasing.ErrThrottled if the source refused
// temporarily; leasing.ErrUnavailable if the source did not answer. It also matches the error of a
// context that has ended. No request was sent to the service that the token was for.
//
// Its text has no secrets.
type Error struct {
	Mode Mode
	// Err is the error from azidentity, or from a token function.
	Err error

	kind error // of package leasing
	text string
}

func (e *Error) Error() string {
	return fmt.Sprintf("no token (auth mode %s): %v: %s", e.Mode, e.kind, e.text)
}

func (e *Error) Unwrap() []error { return []error{e.kind, e.Err} }

// kindOf returns the error of package leasing for an error that azidentity returned
// after its retries. An optional link's error means that the link has no identity.
// Otherwise the response's status decides.
func kindOf(ctx context.Context, err error, optional bool) error {
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%w: %w", leasing.ErrUnavailable, ended)
	}
	if optional || isUnavailable(err) {
		return leasing.ErrDenied
	}
	if r := failure(err).RawResponse; r != nil {
		if isRefusal(r) {
			return leasing.ErrDenied
		}
		switch r.StatusCode {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			seconds, _ := strconv.Atoi(r.Header.Get("Retry-After")) // Entra ID sends seconds, not a date
			return &leasing.ThrottledError{RetryAfter: time.Duration(max(0, seconds)) * time.Second}
		}
	}
	return leasing.ErrUnavailable
}

// Refused reports whether an error from a credential means that its source has refused
// the identity. It recognizes the errors of this package, of azidentity and of azcore.
func Refused(err error) bool {
	if errors.Is(err, leasing.ErrDenied) {
		return true
	}
	if ours := (*Error)(nil); errors.As(err, &ours) {
		return false
	}
	r := failure(err).RawResponse
	if answered := (*azcore.ResponseError)(nil); r == nil && errors.As(err, &answered) {
		if r = answered.RawResponse; r == nil {
			r = &http.Response{StatusCode: answered.StatusCode, Body: http.NoBody}
		}
	}
	return r != nil && isRefusal(r)
}

// isRefusal reports whether a source of tokens refuses the identity. A 400 is a refusal only
// if it has an error code of OAuth (RFC 6749, 5.2) or of a managed identity endpoint, since
// a proxy may also answer 400. Entra ID's "temporarily_unavailable" is not a refusal.
func isRefusal(r *http.Response) bool {
	switch r.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusBadRequest:
		said, own := errorBodyOf(r)
		code, _ := said.Error.(string)
		return own && code != "temporarily_unavailable" && code != "server_error"
	}
	return false
}

// isUnavailable reports whether an error means that the identity does not exist here. azidentity
// does not export its credentialUnavailableError.
func isUnavailable(err error) bool {
	var unavailable interface {
		error
		NonRetriable()
	}
	var failed *azidentity.AuthenticationFailedError
	return errors.As(err, &unavailable) && !errors.As(err, &failed)
}

// failure returns the azidentity error in err's chain, or else an empty error. azidentity has
// read the response's body to the end.
func failure(err error) *azidentity.AuthenticationFailedError {
	failed := new(azidentity.AuthenticationFailedError)
	errors.As(err, &failed)
	return failed
}

// shortError returns the main part of an error on one line, since the text of an azidentity error
// contains a whole response, on many lines.
func shortError(err error) string {
	if asserted := (*assertionError)(nil); errors.As(err, &asserted) {
		return asserted.Error()
	}
	if r := failure(err).RawResponse; r != nil {
		return describe(r)
	}
	return oneLine(err.Error())
}

// describe returns the status of a response and its error text: Entra ID's error and
// error_description, or the managed identity endpoints' message.
func describe(r *http.Response) string {
	text := fmt.Sprintf("status %d", r.StatusCode)
	said, own := errorBodyOf(r)
	if !own {
		return text
	}
	for _, part := range []any{said.Error, said.Description, said.Message} {
		const most = 400 // bytes; Entra ID's messages are about 200
		s, _ := part.(string)
		if s = oneLine(s); len(s) > most {
			s = strings.ToValidUTF8(s[:most], "") + "..."
		}
		if s != "" {
			text += ": " + s
		}
	}
	return text
}

// errorBody is the body of an error response from a source of tokens.
type errorBody struct {
	Error       any    `json:"error"`
	Description string `json:"error_description"`
	Message     string `json:"message"`
}

// errorBodyOf reads a response. own is false if the response is not from a source of tokens.
func errorBodyOf(r *http.Response) (said errorBody, own bool) {
	body, err := runtime.Payload(r)
	own = err == nil && json.Unmarshal(body, &said) == nil && (said.Error != nil || said.Description+said.Message != "")
	return said, own
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// redactedFailure returns azidentity's error for a response whose body must not be shown. r is nil if
// there is no response. The error keeps the parts that determine whether to retry and whether the
// identity was refused.
func redactedFailure(r *http.Response) *azidentity.AuthenticationFailedError {
	if r == nil {
		return &azidentity.AuthenticationFailedError{}
	}
	body := ""
	if isRefusal(r) {
		body = `{"error":"refused"}`
	}
	return &azidentity.AuthenticationFailedError{RawResponse: &http.Response{
		Status: strconv.Itoa(r.StatusCode), StatusCode: r.StatusCode, Header: r.Header, Body: io.NopCloser(strings.NewReader(body)),
	}}
}

var (
	// tokens matches secrets that MSAL may quote from a response that it can't read ("json message
	// bytes were"), or that a server may echo from a request.
	tokens = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{4,}[A-Za-z0-9_.-]*|(?i:(access_token|refresh_token|id_token|client_secret|client_assertion|accesstoken|value)["']?\s*[:=]\s*["']?[^"'&\s,}]+)`)
	// secretVariables hold secrets that a server may echo.
	secretVariables = []string{envClientSecret, envCertificatePassword, envGitHubToken, "IDENTITY_HEADER", "MSI_SECRET"}
)

// redact hides possible secrets in a text.
func redact(text, secret string) string {
	secrets := []string{secret}
	for _, name := range secretVariables {
		secrets = append(secrets, os.Getenv(name))
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, string(notShown))
		}
	}
	return tokens.ReplaceAllString(text, string(notShown))
}
