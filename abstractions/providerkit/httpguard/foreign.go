package httpguard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
)

// RedirectError reports a redirect that was not followed. The outcome of the request
// is unknown: a proxy may answer in place of a service that has applied the request.
type RedirectError struct {
	Status int // 301, 302, 303, 307 or 308
	Header http.Header
	Body   []byte
}

// Error shows only the scheme and host of the new address, since the rest may quote the
// request.
func (e *RedirectError) Error() string {
	to := "nowhere"
	if u, err := url.Parse(e.Header.Get("Location")); err == nil && u.Host != "" {
		to = u.Scheme + "://" + u.Host
	} else if e.Header.Get("Location") != "" {
		to = "another path"
	}
	return fmt.Sprintf("%d %s to %q, which is not followed; a proxy or gateway may stand before the service", e.Status, http.StatusText(e.Status), visible(to))
}

// ForeignError reports an answer without the service's mark. The outcome of the request
// is unknown: a proxy or gateway in front of the service may have answered in its place.
type ForeignError struct {
	Service string // such as "Consul"
	Status  int
	summary string
}

// Error shows the beginning of the answer's body, on one line.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("an answer that is not from %s: %s; a proxy or gateway may stand before the service", e.Service, e.summary)
}

// Foreign makes a ForeignError from an answer that Client.Do has returned, or that an SDK has
// kept. body is the part of the body that was read.
func Foreign(service string, response *http.Response, body []byte) error {
	return &ForeignError{service, response.StatusCode, Said(response, body)}
}

// Said describes an answer for an error text: status, type and the beginning of the body, on
// one line and without the credentials of the request.
func Said(response *http.Response, body []byte) string {
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	said := oneLine(response.Request, string(body[:min(len(body), maxShown*4)]))
	return fmt.Sprintf("%d %s: %s", response.StatusCode, visible(cmp.Or(kind, http.StatusText(response.StatusCode), "unknown status")), cmp.Or(said, "nothing more"))
}

// maxShown bounds the part of a text that an error shows, in bytes.
const maxShown = 300

// oneLine returns a text without line breaks, control characters and the request's credentials.
func oneLine(req *http.Request, text string) string {
	if req != nil {
		for _, secret := range secrets(req) {
			text = strings.ReplaceAll(text, secret, "[secret]")
		}
	}
	text = visible(text)
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "..."
	}
	return text
}

// visible returns a text on one line, without the characters that can't be printed.
func visible(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}

// secrets returns the credentials of a request, in its header, its query and its URL.
func secrets(req *http.Request) []string {
	var all []string
	add := func(text string) {
		if len(text) > 3 { // a shorter text is a word rather than a secret
			all = append(all, text, url.QueryEscape(text), url.PathEscape(text))
		}
	}
	for name, values := range req.Header {
		for _, value := range values {
			if !isSecret(name) {
				continue
			}
			add(value)
			if _, token, found := strings.Cut(value, " "); found {
				add(token)
			}
			if _, signature, found := strings.Cut(value, "Signature="); found {
				add(signature)
			}
		}
	}
	if req.URL != nil {
		for name, values := range req.URL.Query() {
			for _, value := range values {
				if isSecret(name) {
					add(value)
				}
			}
		}
		if password, has := req.URL.User.Password(); has {
			add(password)
		}
	}
	return all
}

// isSecret reports whether a header or a parameter with the given name is a credential.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"authorization", "token", "cookie", "secret", "signature", "password", "api-key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return name == "sig"
}
