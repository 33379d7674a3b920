package providerkit

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
)

// URL has the parts of a URL. It is parsed by hand, since package net/url does
// not accept lists of hosts, and its errors quote the URL with the password.
type URL struct {
	Scheme   string
	User     string // unescaped
	Password Secret // unescaped
	Host     string // between // or @ and the path: host:port, several with commas, or ""
	Path     string // as written, with its slash
	Query    url.Values

	beforeQuery Secret
}

// Format shows only the scheme: if a URL was split in the wrong place, the
// password may be in any part.
func (u URL) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "%s://%s", u.Scheme, NotShown) }

// ParseURL parses Options.URL, which must have one of the schemes. An unescaped
// @, /, ? or # in a password is an error. No error shows any part of the URL.
func ParseURL(text string, schemes ...string) (URL, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found || !slices.Contains(schemes, scheme) {
		return URL{}, BadURL(strings.Join(schemes, "://..., ") + "://...")
	}
	rest, rawQuery, _ := strings.Cut(rest, "?")
	query, err := url.ParseQuery(rawQuery)
	if err != nil || !pairs(rawQuery) || strings.Contains(rest, "#") {
		return URL{}, BadURL("name=value&... after the ?, no fragment, and a password with ? written as %3F, # as %23")
	}
	u := URL{Scheme: scheme, Host: rest, Query: query, beforeQuery: NewSecret(scheme + "://" + rest)}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		u.Host, u.Path = rest[:i], rest[i:]
	}
	at := strings.LastIndexByte(u.Host, '@')
	if at < 0 {
		if u.Host != "" && strings.Contains(u.Path, "@") {
			return URL{}, BadURL("a password with / written as %2F; or @ in a path as %40")
		}
		return u, nil
	}
	rawUser, rawPassword, _ := strings.Cut(u.Host[:at], ":")
	user, err := url.PathUnescape(rawUser)
	password, err2 := url.PathUnescape(rawPassword)
	if err != nil || err2 != nil {
		return URL{}, BadURL("a user and password with % written as %25")
	}
	u.User, u.Password, u.Host = user, NewSecret(password), u.Host[at+1:]
	return u, nil
}

// ReadURL parses Options.URL, sets the fields of options (a pointer to a struct) that the
// query names, and returns the path unescaped, without the leading slash.
func ReadURL(options any, text string, schemes ...string) (u URL, path string, err error) {
	u, err = ParseURL(text, schemes...)
	if err == nil {
		err = SetAll(options, u.Query)
	}
	if err != nil {
		return URL{}, "", err
	}
	if path, err = url.PathUnescape(strings.TrimPrefix(u.Path, "/")); err != nil {
		return URL{}, "", BadURL("a path with % written as %25")
	}
	return u, path, nil
}

// HostPort returns host:port for an address whose port may be missing, or "" if the
// address is invalid.
func HostPort(address, port string) string {
	host, own, err := net.SplitHostPort(address)
	if err != nil {
		host, own = strings.Trim(address, "[]"), port
	}
	if host == "" || strings.ContainsAny(address, "/@ ") {
		return ""
	}
	return net.JoinHostPort(host, own)
}

// pairs reports whether a query has only pairs of names and values, and so
// can't be the end of a password.
func pairs(rawQuery string) bool {
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if pair != "" && !strings.Contains(pair, "=") || strings.ContainsAny(pair, "@#") {
			return false
		}
	}
	return true
}

// With returns the URL as it was written, with another query. A space is written as %20, since libpq and pgx do not
// read a plus sign as a space.
func (u URL) With(query url.Values) Secret {
	text := u.beforeQuery.Reveal()
	if len(query) > 0 {
		text += "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
	}
	return NewSecret(text)
}

// BadURL returns the error for an invalid Options.URL, without showing the URL.
func BadURL(want string) error { return invalid(".URL", NotShown, want) }

// SetQuery sets the fields of options (a pointer to a struct) that a URL's query
// names, and returns the other parameters.
func SetQuery(options any, query url.Values) (rest url.Values, err error) {
	fields := fieldsOf(options)
	rest = maps.Clone(query)
	for _, key := range slices.Sorted(maps.Keys(query)) {
		at := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if key == "" || at < 0 {
			continue
		}
		f, values := fields[at], query[key]
		if !f.inQuery() {
			return nil, invalid(".URL parameter "+key, NotShown, "it in Options."+f.name+", or before the host: a query is shown where these are hidden")
		}
		if len(values) != 1 {
			return nil, invalid(".URL parameter "+key, NotShown, "one value")
		}
		if want := f.set(values[0]); want != "" {
			return nil, invalid(".URL parameter "+key, Shown(values[0]), want)
		}
		delete(rest, key)
	}
	return rest, nil
}

// SetAll is like SetQuery, but refuses all other parameters.
func SetAll(options any, query url.Values) error {
	rest, err := SetQuery(options, query)
	if err != nil {
		return err
	}
	return UnknownParameter(options, rest)
}

// UnknownParameter returns the error of unknown parameters, or nil if rest is empty.
func UnknownParameter(options any, rest url.Values) error {
	for _, key := range slices.Sorted(maps.Keys(rest)) {
		return invalid(".URL parameter", Shown(key), "one of "+strings.Join(keys(fieldsOf(options), false), ", "))
	}
	return nil
}
