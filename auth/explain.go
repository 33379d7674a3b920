package auth

import (
	"fmt"
	"strings"
)

// Explanation is how a mode looks for tokens, for a log at the start of a
// program. It has no secrets.
type Explanation struct {
	Mode Mode
	// Authority is where Entra ID is asked, by the modes that do.
	Authority string
	// Links are tried in this order, those that are used, until one has a token.
	Links []Link
	// Err is what New would return; then there may be no links.
	Err error
}

// Link is one way to get tokens.
type Link struct {
	Name string
	// Used is false for a link that is left out.
	Used bool
	// Why says with what; or why it is left out.
	Why string
}

// Explain says what New would make of the options and of the environment. It
// sends nothing, and opens no file.
func Explain(o Options) Explanation {
	e := Explanation{Mode: o.Mode}
	o, e.Err = o.complete()
	if e.Err != nil {
		return e
	}
	if o.Mode != ManagedIdentity && o.Mode != Development {
		configuration, _ := o.CloudConfiguration() // complete had no error
		e.Authority = configuration.ActiveDirectoryAuthorityHost
	}
	links, err := o.plan()
	e.Err = err
	for _, l := range links {
		e.Links = append(e.Links, Link{Name: l.name, Used: l.make != nil, Why: l.why})
	}
	return e
}

// String has a line for the mode, and one for each link:
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
