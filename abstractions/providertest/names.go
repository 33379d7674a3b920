package providertest

import (
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var nameChecks = []suite.Check{
	// Names stay distinct, come back unchanged, and are never executed
	// or expanded.
	{Name: "Trap_T25_HostileNamesAreOnlyNames", Run: func(e *suite.Env) {
		u := e.Unique()
		holdAll(e, []string{
			u + ` ' OR '1'='1`, u + `'; DROP TABLE leases; --`, u + `"quoted"`, u + "`tick`", u + `\`, u + `\\`, u + `\'`,
			u + `%`, u + `%s%n%d`, u + `%41`, u + `A`, u + `%2F`, u + `%252F`, u + `+`, u + ` `, ` ` + u, u + `  x`, u + ` x`,
			u + `/`, `/` + u, u + `//x`, u + `/x`, u + `/./x`, u + `/../x`, `../` + u, `./` + u, u + `/..`, u + `/.`, u + `.`, u + `..`,
			u + `{tag}`, u + `{}`, u + `}{`, `{` + u, `{x}` + u, u + `:`, u + `:fence`, u + `:waiters`, u + `,`, u + `;`, u + `|`,
			u + `*`, u + `?`, u + `[a-z]`, u + `_`, u + `?comp=lease&x=1#y`, u + `#`, u + `&`, u + `=`, u + `@`, u + `!`, u + `~`, `-` + u, `--` + u,
			u + `$1`, u + `$$`, u + `${HOME}`, u + `{{.}}`, u + `<b>&amp;`, u + `\u0041`, u + `\x00`, u + `\n`, u + `" .. redis.call("FLUSHALL") .. "`,
			u + "\u00e9", u + "e\u0301", u + "日本語", u + "🔒", u + "\u202e", u + "\u200b", u + "\ufeff", u + "\u00a0", u + "\U0010ffff", u + "\ufffd",
		})
	}},
	// The check holds names that careless encodings fold together.
	{Name: "Trap_T25_NamesAreInjective", Run: func(e *suite.Env) {
		u := e.Unique()
		holdAll(e, []string{
			u + "My Lock", u + "my-lock", u + "my lock", u + "My-Lock", u + "MY LOCK", u + "MyLock", u + "mylock", u + "my_lock", u + "my.lock",
			u + "a/b", u + "a-b", u + "a--b", u + "a.b", u + "a:b", u + "a|b", u + "a\\b", u + "a%2Fb", u + "a%2fb", u + "a b", u + "a+b", u + "a%20b", u + "ab", u + "a_b", u + "a~b", u + "a=b",
			u + "i", u + "I", u + "ı", u + "İ", u + "ß", u + "ss", u + "SS", u + "ẞ", u + "ﬁ", u + "fi", u + "K", u + "\u212a", u + "k", u + "σ", u + "ς", u + "Σ",
			u + "é", u + "e", u + "É", u + "1", u + "１", u + "¹", u + "01", u + "1.0",
			u, u + u, strings.ToUpper(u) + "x", strings.ToLower(u) + "x",
		})
	}},
	{Name: "Trap_T25_LongestNamesAreToldApart", Run: func(e *suite.Env) {
		limit := abstractions.MaxNameBytes
		if e.Caps.MaxNameBytes > 0 {
			limit = e.Caps.MaxNameBytes
		}
		u := e.Unique() // 16 bytes
		fill := func(text, end string) string {
			n := (limit - len(u) - len(end)) / len(text)
			rest := limit - len(u) - len(end) - n*len(text)
			return u + strings.Repeat(text, n) + strings.Repeat("x", rest) + end
		}
		names := []string{
			fill("a", ""), fill("a", "b"), fill("A", ""), fill("é", ""), fill("日", ""), fill("🔒", ""), fill("🔒", "🔑"), fill(" ", "x"), fill("/", "x"),
			fill("%", ""), fill("'", ""), fill("ab", "")[:limit-1], fill("ab", "")[:limit-2],
		}
		for _, name := range names[:11] {
			e.Len(name, limit)
		}
		holdAll(e, names)
	}},
}

// holdAll holds all names at the same time, each by a separate claim, and
// checks that they are independent of each other.
func holdAll(e *suite.Env, names []string) {
	var claims []*suite.Claim
	for _, name := range names {
		if e.Caps.MaxNameBytes == 0 || len(name) <= e.Caps.MaxNameBytes {
			claims = append(claims, e.Take(name))
		}
	}
	for i, c := range claims {
		record := e.Inspect(c.Req.Name)
		e.Equal(abstractions.FingerprintOf(c.Req.ID), record.Fingerprint, "the holder of %q", c.Req.Name)
		e.Equal(c.Token(), record.Token, "the token of %q", c.Req.Name)
		if i%2 == 0 {
			c.Release()
		}
	}
	for i, c := range claims {
		e.Equal(i%2 == 1, e.Inspect(c.Req.Name).Held, "%q is held", c.Req.Name)
		if i%2 == 1 {
			c.Renew(e.Long)
			c.Release()
		}
	}
}
