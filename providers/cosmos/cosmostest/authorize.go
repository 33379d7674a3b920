package cosmostest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// dateTolerance is the permitted error of a signature's date: learn.microsoft.com/
// rest/api/cosmos-db/access-control-on-cosmosdb-resources, "Authorization header".
const dateTolerance = 15 * time.Minute

// authorize refuses a request whose credentials do not permit its operation.
func (c *call) authorize() *reply {
	text, err := url.QueryUnescape(c.r.Header.Get("Authorization"))
	if err != nil {
		return unauthorized("not escaped")
	}
	// The value of sig may contain =.
	kind, rest, _ := strings.Cut(text, "&")
	version, sig, _ := strings.Cut(rest, "&sig=")
	if version != "ver=1.0" {
		return unauthorized("no ver=1.0")
	}
	switch kind {
	case "type=master":
		return c.authorizeKey(sig)
	case "type=aad":
		return c.authorizeToken(sig)
	}
	return unauthorized("neither type=master nor type=aad")
}

func unauthorized(why string) *reply { return refuse(http.StatusUnauthorized, 0, why) }

func (c *call) authorizeKey(sig string) *reply {
	c.account.mu.Lock()
	key, err := base64.StdEncoding.DecodeString(c.account.options.Key)
	c.account.mu.Unlock()
	if err != nil || len(key) == 0 {
		return unauthorized("keys are not used here")
	}
	date := c.r.Header.Get("x-ms-date")
	at, err := http.ParseTime(date)
	if err != nil {
		return unauthorized("no x-ms-date")
	}
	// The signature covers the resource or, for a feed, its parent.
	parts := strings.Split(strings.TrimPrefix(c.r.URL.Path, "/"), "/")
	kind, link := parts[(len(parts)-1)/2*2], strings.Join(parts[:len(parts)/2*2], "/")
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.ToLower(c.r.Method) + "\n" + kind + "\n" + link + "\n" + strings.ToLower(date) + "\n\n"))
	given, err := base64.StdEncoding.DecodeString(sig)
	if err != nil || !hmac.Equal(given, mac.Sum(nil)) {
		return unauthorized("the signature does not match")
	}
	if off := c.account.options.Now().Sub(at).Abs(); off > dateTolerance {
		return refuse(http.StatusForbidden, 0, "the authorization token is not valid at the current time")
	}
	return nil
}

// authorizeToken permits a bearer token only the operations of a data-plane role. A role can't
// permit the creation or deletion of containers: learn.microsoft.com/azure/cosmos-db/nosql/
// troubleshoot-forbidden, "Non-data operations are not allowed".
func (c *call) authorizeToken(token string) *reply {
	if c.account.options.Token == nil {
		return unauthorized("tokens are not used here")
	}
	if err := c.account.options.Token(token); err != nil {
		return unauthorized(err.Error())
	}
	if c.op.Verb == CreateDatabase || c.op.Verb == CreateContainer {
		return refuse(http.StatusForbidden, 5300, "the given request cannot be authorized by AAD token in data plane")
	}
	return nil
}
