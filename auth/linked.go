package auth

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// linked is one way to get tokens, with errors that are short and safe to show.
type linked struct {
	name     string
	source   azcore.TokenCredential
	optional bool
	safe     func(string) string // without secrets
}

func (l *linked) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := l.source.GetToken(ctx, options)
	if err == nil {
		return token, nil
	}
	failed := &linkError{text: l.name + ": " + l.safe(brief(err)), err: err}
	if l.safe(err.Error()) != err.Error() {
		failed.err = unquoted(err)
	}
	if l.optional {
		failed.err = azidentity.NewCredentialUnavailableError(failed.text)
	}
	return azcore.AccessToken{}, failed
}

// linkError shows its text in place of azidentity's, which has a whole answer
// over many lines. What is behind it decides what a chain does next.
type linkError struct {
	text string
	err  error
}

func (e *linkError) Error() string { return e.text }
func (e *linkError) Unwrap() error { return e.err }

// brief is what is worth knowing about an error of azidentity.
func brief(err error) string {
	if asserted := (*assertionError)(nil); errors.As(err, &asserted) {
		return asserted.Error()
	}
	if said, found := answerIn(err); found {
		return said.String()
	}
	return oneLine(err.Error())
}

// unquoted is an error in place of one that quotes a secret.
func unquoted(err error) error {
	if said, found := answerIn(err); found {
		return said.withoutBody()
	}
	return &azidentity.AuthenticationFailedError{}
}

// tokens are what MSAL may quote of an answer that it can't read ("json message
// bytes were"), and what a server may send back of a request.
var tokens = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{4,}[A-Za-z0-9_.-]*|(?i:(access_token|refresh_token|id_token|client_secret|client_assertion|accesstoken|value)["']?\s*[:=]\s*["']?[^"'&\s,}]+)`)

// secretVariables may be sent back too.
var secretVariables = []string{envClientSecret, envCertificatePassword, envGitHubToken, "IDENTITY_HEADER", "MSI_SECRET"}

// hiding returns a function that hides what may be a secret. A function prints as
// nothing.
func hiding(secrets ...string) func(string) string {
	for _, name := range secretVariables {
		secrets = append(secrets, os.Getenv(name))
	}
	return func(text string) string {
		for _, secret := range secrets {
			if secret != "" {
				text = strings.ReplaceAll(text, secret, notShown)
			}
		}
		return tokens.ReplaceAllString(text, notShown)
	}
}
