package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// New makes the credential that the options describe. It sends no request; with
// a certificate it reads the file. For invalid options it returns a
// *leasing.InvalidError that names the field.
//
// The credential is safe for concurrent use. It has nothing to close. Its errors
// are *Error.
func New(o Options) (azcore.TokenCredential, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	links, err := o.links()
	if err != nil {
		return nil, err
	}
	c := &credential{mode: o.Mode}
	for _, l := range links {
		if l.make == nil {
			continue
		}
		if l.source, err = l.make(); err != nil {
			return nil, err
		}
		c.links = append(c.links, &l)
	}
	return c, nil
}

// credential tries links in turn. The first link that returns a token is used from then on.
// azidentity keeps and renews the tokens.
type credential struct {
	mode    Mode
	links   []*link
	working atomic.Pointer[link]
}

// Format prints the mode.
func (c *credential) Format(f fmt.State, _ rune) { fmt.Fprint(f, "auth.New("+string(c.mode)+")") }

func (c *credential) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	links := c.links
	if found := c.working.Load(); found != nil {
		links = []*link{found}
	}
	failed := &Error{Mode: c.mode}
	var texts []string
	silent := false
	for _, l := range links {
		token, err := l.source.GetToken(ctx, options)
		if err == nil {
			c.working.Store(l)
			return token, nil
		}
		texts = append(texts, l.name+": "+redact(shortError(err), l.secret))
		failed.kind, failed.Err = kindOf(ctx, err, l.optional), err
		if redact(err.Error(), l.secret) != err.Error() {
			failed.Err = redactedFailure(failure(err).RawResponse)
		}
		silent = silent || errors.Is(err, errSilent)
		if !l.optional && !isUnavailable(err) {
			break
		}
	}
	if silent { // it is unknown whether the identity exists
		failed.kind = leasing.ErrUnavailable
	}
	failed.text = strings.Join(texts, "; ")
	return azcore.AccessToken{}, failed
}

// tokenTimeout bounds a request for a token. It is the timeout of azidentity 1.15.0 for
// its slowest credentials, those that run a program (cliTimeout).
const tokenTimeout = 10 * time.Second

// ForService returns a credential for the client of one service. Its errors are of type
// *providerkit.CredentialError. These errors say nothing about the service, and match ErrDenied if
// Refused reports true. A panic of the credential becomes an error of this type.
//
// Unless scope is "", the credential requests tokens only for that scope, and ignores the scope
// that the client requests. A client of Azure Storage reads the scope from any 401 answer, so
// otherwise a server could obtain a token for another service.
//
// A request for a token takes at most 10 seconds, and ends when lifetime ends. The clients of
// Azure's services make all callers wait for a single request, whose context may never end, so a
// hanging request would block all callers.
func ForService(lifetime context.Context, c azcore.TokenCredential, scope string) azcore.TokenCredential {
	return credentialFunc(func(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
		ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
		defer cancel()
		defer context.AfterFunc(lifetime, cancel)()
		if scope != "" {
			options.Scopes = []string{scope}
		}
		return providerkit.AskCredentials(ctx, Refused, func(ctx context.Context) (azcore.AccessToken, error) {
			token, err := c.GetToken(ctx, options)
			if err != nil {
				err = providerkit.WithText(redact(shortError(err), ""), err)
			}
			return token, err
		})
	})
}

// credentialFunc is a function that serves as a credential.
type credentialFunc func(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error)

func (f credentialFunc) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return f(ctx, options)
}

// Explanation describes how a mode gets tokens, for a log at the start of a program. It contains no
// secrets.
type Explanation struct {
	Mode Mode
	// Authority is the address of Entra ID, for the modes that send requests to Entra ID.
	Authority string
	// The links that are used are tried in this order, until one returns a token.
	Links []Link
	// Err is the error that New would return. If it is not nil, Links may be empty.
	Err error
}

// Link is one way to get tokens.
type Link struct {
	Name string
	// Used is false for a link that is left out.
	Used bool
	// Why describes the identity and its proof, or gives the reason for leaving the link out.
	Why string
}

// Explain returns the links that New would make from the options and the environment. It sends no
// request, and opens no file.
func Explain(o Options) Explanation {
	e := Explanation{Mode: o.Mode}
	if o, e.Err = o.complete(); e.Err != nil {
		return e
	}
	if o.Mode != ManagedIdentity && o.Mode != Development {
		configuration, _ := o.CloudConfiguration() // complete has validated the options
		e.Authority = configuration.ActiveDirectoryAuthorityHost
	}
	var links []link
	links, e.Err = o.links()
	for _, l := range links {
		e.Links = append(e.Links, Link{Name: l.name, Used: l.make != nil, Why: l.why})
	}
	return e
}

// String returns a line for the mode, and a line for each link:
//
//	auth: mode Auto, https://login.microsoftonline.com/
//	  1. managed identity: system-assigned, if the metadata service answers within 1s
//	  -  developer tools: left out: APP_ENV=production
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "auth: mode %s", e.Mode)
	if e.Authority != "" {
		b.WriteString(", " + e.Authority)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, "\n  %v", e.Err)
	}
	used := 0
	for _, l := range e.Links {
		if !l.Used {
			fmt.Fprintf(&b, "\n  -  %s: left out: %s", l.Name, l.Why)
			continue
		}
		used++
		fmt.Fprintf(&b, "\n  %d. %s: %s", used, l.Name, l.Why)
	}
	return b.String()
}
