package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/distributedleasing/leasing"
)

// Error is a token that could not be had. It matches leasing.ErrDenied where
// Entra ID, or whoever else was asked, refused the identity or knew none;
// leasing.ErrThrottled where it refused for now; leasing.ErrUnavailable where it
// did not answer, or could not. It also matches the error of a context that has
// ended. No request was sent to the service that the token was for.
//
// Its text has no secrets.
type Error struct {
	Mode Mode
	// Err is azidentity's, or that of a token function.
	Err error

	kind error // of package leasing
	text string
}

func (e *Error) Error() string {
	return fmt.Sprintf("no token (auth mode %s): %s", e.Mode, e.text)
}

func (e *Error) Unwrap() []error { return []error{e.kind, e.Err} }

// credential is what New returns: it says in package leasing's words what went
// wrong. Tokens are kept and renewed by azidentity.
type credential struct {
	mode   Mode
	source azcore.TokenCredential
}

// String shows the mode.
func (c *credential) String() string { return "auth.New(" + string(c.mode) + ")" }

func (c *credential) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := c.source.GetToken(ctx, options)
	if err != nil {
		kind := kindOf(ctx, err)
		return azcore.AccessToken{}, &Error{Mode: c.mode, Err: err, kind: kind, text: oneLine(fmt.Sprintf("%v: %v", kind, err))}
	}
	return token, nil
}

// kindOf is the table from what azidentity says to the errors of package leasing.
// An answer with a status decides by it. azidentity's retries are over by then.
func kindOf(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%w: %w", leasing.ErrUnavailable, ended)
	}
	said, found := answerIn(err)
	if !found {
		return kindWithoutAnswer(err)
	}
	switch said.status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return leasing.ErrDenied
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return &leasing.ThrottledError{RetryAfter: said.retryAfter()}
	}
	return leasing.ErrUnavailable
}

// kindWithoutAnswer tells an identity that is not there from one that could not
// be asked for.
func kindWithoutAnswer(err error) error {
	var unavailable interface {
		error
		NonRetriable()
	}
	var failed *azidentity.AuthenticationFailedError
	if errors.As(err, &unavailable) && !errors.As(err, &failed) {
		return leasing.ErrDenied // azidentity's credentialUnavailableError, which has no name
	}
	return leasing.ErrUnavailable
}
