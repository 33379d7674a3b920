package providerkit

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

func TestURLsAreTakenApart(t *testing.T) {
	for text, want := range map[string]URL{
		"x://":                      {Scheme: "x"},
		"x:///folder/a@b.db?a=1":    {Scheme: "x", Path: "/folder/a@b.db", Query: url.Values{"a": {"1"}}},
		"x://file.db":               {Scheme: "x", Host: "file.db"},
		"x+s://h1:1,h2:2/0?a=1&a=2": {Scheme: "x+s", Host: "h1:1,h2:2", Path: "/0", Query: url.Values{"a": {"1", "2"}}},
		"x://u@h/":                  {Scheme: "x", User: "u", Host: "h", Path: "/"},
		"x://u:p%3F%40%2F%23@[::1]:6379/0?b=%23": {
			Scheme: "x", User: "u", Password: NewSecret("p?@/#"), Host: "[::1]:6379", Path: "/0", Query: url.Values{"b": {"#"}},
		},
		"x://:p@q@h":      {Scheme: "x", Password: NewSecret("p@q"), Host: "h"},
		"x://u:p@/path@x": {Scheme: "x", User: "u", Password: NewSecret("p"), Path: "/path@x"},
	} {
		u, err := ParseURL(text, "y", "x", "x+s")
		require.NoError(t, err, text)
		require.Equal(t, want.Password.Reveal(), u.Password.Reveal(), text)
		require.Equal(t, strings.SplitN(text, "?", 2)[0], u.With(nil).Reveal())
		require.Equal(t, strings.SplitN(text, "?", 2)[0]+"?c=%20%2B", u.With(url.Values{"c": {" +"}}).Reveal())
		if want.Query == nil {
			want.Query = url.Values{}
		}
		want.Password, want.beforeQuery = u.Password, u.beforeQuery
		require.Equal(t, want, u, text)
	}
}

// S5: a URL whose password is not escaped, or that is malformed otherwise, is
// refused.
func TestTrap_T49_PasswordsThatWereNotEscaped(t *testing.T) {
	for _, text := range []string{
		"x://u:p?w@h/d", "x://u:p?w", "x://u:p?a=1@h", "x://u:p#w@h", "x://u:p/w@h", "x://u:p%w@h", "x://u:p?w=1#@h", "x://h?a=1&b", "x://h?a=%zz", "x://h#f",
		"x://%zz@h", "h:1", "x:h", "z://h", "",
	} {
		_, err := ParseURL(text, "x")
		require.ErrorIs(t, err, abstractions.ErrInvalid, text)
		require.ErrorContains(t, err, "Options.URL (not shown)", text)
	}
}

func TestHostPort(t *testing.T) {
	for address, want := range map[string]string{
		"h": "h:1", "h:2": "h:2", "[::1]": "[::1]:1", "[::1]:2": "[::1]:2", "": "", ":2": "", "http://h": "", "a@h": "", "a b": "",
	} {
		require.Equal(t, want, HostPort(address, "1"), address)
	}
}

func TestReadURL(t *testing.T) {
	type options struct {
		URL   string `json:"url" option:"secret"`
		Shelf string `json:"shelf"`
	}
	var o options
	u, path, err := ReadURL(&o, "x://host/a%2Fb/c?shelf=s", "x")
	require.NoError(t, err)
	require.Equal(t, []string{"host", "a/b/c", "s"}, []string{u.Host, path, o.Shelf})
	for _, text := range []string{"y://host", "x://host/%zz", "x://host?nonsense=1"} {
		_, _, err = ReadURL(&o, text, "x")
		require.ErrorIs(t, err, abstractions.ErrInvalid, text)
	}
}

// FuzzParseURL looks for URLs whose password is split, and for panics.
func FuzzParseURL(f *testing.F) {
	f.Add("x://user:pass@host:1/path?a=1")
	f.Add("x://user:p?s3cret@h")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseURL(text, "x")
		if err != nil {
			require.Equal(t, 1, strings.Count(err.Error(), string(NotShown)))
			return
		}
		require.NotContains(t, u.Host, "@")
		require.True(t, strings.HasPrefix(text, u.With(nil).Reveal()))
	})
}

func TestShown(t *testing.T) {
	for _, word := range []string{"", "90m", "a-b_c.d", "h:1/0"} {
		require.Equal(t, word, Shown(word))
	}
	for _, secret := range []string{strings.Repeat("a", 25), "p w", "p+w=", "é", "p\n", "p?"} {
		require.Equal(t, NotShown, Shown(secret))
	}
}
