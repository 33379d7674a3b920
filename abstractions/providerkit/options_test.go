package providerkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing/abstractions"
)

// Options has a field of every kind.
type Options struct {
	URL       string        `json:"url" option:"secret"`
	DSN       string        `json:"dsn" option:"secret"`
	Client    io.Reader     `json:"-"`
	Password  Secret        `json:"password"`
	Kind      kind          `json:"kind" option:"oneof=full|normal,default=full"`
	Table     string        `json:"table" option:"default=lease,path,maxlen=10"`
	Create    bool          `json:"create"`
	Units     int           `json:"units" option:"min=400,max=1000"`
	Entries   int           `json:"entries" option:"min=0"`
	Hosts     []string      `json:"hosts"`
	Mode      mode          `json:"mode"`
	Nested    nested        `json:"nested"`
	Retention time.Duration `json:"retention" option:"retention,min=1m"`
	Timeout   time.Duration `json:"timeout" option:"timeout"`
	Skew      time.Duration `json:"skew" option:"max=1m"`
	private   int
}

type kind string

type nested struct {
	Key string `json:"key"`
}

func (nested) String() string { return "nested" }

// mode has its own UnmarshalText.
type mode struct{ name string }

func (m *mode) UnmarshalText(text []byte) error {
	if m.name = string(text); m.name != "fast" {
		return fmt.Errorf("no such mode")
	}
	return nil
}

func (o Options) Format(f fmt.State, _ rune)       { Format(f, o) }
func (o Options) MarshalJSON() ([]byte, error)     { return MarshalJSON(o) }
func (o *Options) UnmarshalJSON(data []byte) error { return UnmarshalJSON(data, o) }

func TestOptionsFromJSONAndURLAreTheSame(t *testing.T) {
	want := Options{
		Kind: "normal", Table: "t", Create: true, Units: 500, Entries: 7, Hosts: []string{"a", "b"}, Mode: mode{"fast"},
		Retention: abstractions.Infinite, Timeout: 3 * time.Second, Skew: time.Millisecond,
	}
	var fromJSON Options
	require.NoError(t, json.Unmarshal([]byte(`{"kind": "normal", "table": "t", "create": true, "units": 500, "entries": 7, "hosts": ["a", "b"],
		"mode": "fast", "retention": "forever", "timeout": "3s", "skew": "1ms", "dsn": null}`), &fromJSON))
	require.Equal(t, want, fromJSON)

	u, err := ParseURL("x://h?kind=normal&table=t&create=true&units=500&entries=7&hosts=a,b&mode=fast&retention=forever&timeout=3s&skew=1ms&pool=9", "x")
	require.NoError(t, err)
	var fromURL Options
	rest, err := SetQuery(&fromURL, u.Query)
	require.NoError(t, err)
	require.Equal(t, want, fromURL)
	require.Equal(t, url.Values{"pool": {"9"}}, rest)
	require.Equal(t, "9", u.Query.Get("pool"), "the URL keeps its query")
	require.Len(t, u.Query, 11)
	err = UnknownParameter(&fromURL, rest)
	require.ErrorIs(t, err, abstractions.ErrInvalid)
	require.ErrorContains(t, err, "pool")
	require.ErrorContains(t, err, "one of kind, table, create, ")
	require.NotContains(t, err.Error(), "dsn")
	require.NoError(t, UnknownParameter(&fromURL, nil))

	var full Options
	require.NoError(t, json.Unmarshal([]byte(`{"url": "x://h", "dsn": "d", "password": "p", "nested": {"key": "k"}}`), &full))
	require.Equal(t, "x://h", full.URL)
	require.Equal(t, "p", full.Password.Reveal())
	require.Equal(t, "k", full.Nested.Key)
}

// T52: an impossible value is refused with an error that names the field.
func TestTrap_T52_OptionsThatCannotBeRead(t *testing.T) {
	for text, names := range map[string]string{
		`{"ttl": "3s"}`:                "Options in JSON \"ttl\": want each of url, dsn, ",
		`{"table": "a", "table": "b"}`: "once at most",
		`{"Table": "a"}`:               `"Table"`,
		`{"Client": {}}`:               `"Client"`,
		`{"-": 1}`:                     "Options in JSON",
		`{"": 1}`:                      "Options in JSON",
		`{"timeout": 3}`:               "Options.Timeout",
		`{"timeout": "3"}`:             "Options.Timeout",
		`{"timeout": "forever"}`:       "Options.Timeout",
		`{"retention": "ever"}`:        `want a duration such as "90m", or "forever"`,
		`{"create": "yes"}`:            "Options.Create",
		`{"units": 1.5}`:               "Options.Units",
		`{"mode": "slow"}`:             "mode",
		`{"hosts": "a"}`:               "Options.Hosts",
		`[]`:                           "providerkit.Options",
		`3`:                            "providerkit.Options",
		`"x"`:                          "providerkit.Options",
	} {
		err := (&Options{}).UnmarshalJSON([]byte(text))
		require.ErrorIs(t, err, abstractions.ErrInvalid, text)
		require.ErrorContains(t, err, names, text)
	}
	for _, text := range []string{"", "{", `{"table"`, `{"table":`, `{"table":}`, `{"table": "a"`} {
		require.ErrorIs(t, UnmarshalJSON([]byte(text), &Options{}), abstractions.ErrInvalid, text)
	}
	for query, names := range map[string]string{
		"timeout=3":          `Options.URL parameter timeout "3"`,
		"timeout=forever":    "timeout",
		"create=maybe":       "true or false",
		"units=many":         "a number",
		"units=1&units=2":    "one value",
		"mode=slow":          "mode",
		"nested=x":           "nested",
		"dsn=x":              "Options.DSN",
		"password=x":         "Options.Password",
		"url=x":              "Options.URL",
		"retention=s3cr%21t": "(not shown)",
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = SetQuery(&Options{}, values)
		require.ErrorIs(t, err, abstractions.ErrInvalid, query)
		require.ErrorContains(t, err, names, query)
	}
}

func TestDefaultsAndBounds(t *testing.T) {
	var o Options
	require.NoError(t, Complete(&o))
	require.Equal(t, Options{Kind: "full", Table: "lease", Retention: DefaultRetention, Timeout: 10 * time.Second}, o)
	require.NoError(t, Complete(&o), "again")
	for _, good := range []Options{
		{Kind: "normal"}, {Table: "0123456789"}, {Table: "a/b c"}, {Units: 400}, {Units: 1000}, {Entries: 1 << 40}, {Skew: time.Minute},
		{Retention: time.Minute}, {Retention: maxRetention}, {Retention: abstractions.Infinite}, {Timeout: time.Millisecond}, {Timeout: time.Hour},
	} {
		require.NoError(t, Complete(&good), good)
	}
	for want, bad := range map[string]Options{
		`Options.Kind "off": want full or normal`:                                     {Kind: "off"},
		`Options.Table "01234567890": want at most 10 bytes`:                          {Table: "01234567890"},
		`Options.Table "/t": want names separated by slashes`:                         {Table: "/t"},
		`Options.Table "t/": want names separated by slashes`:                         {Table: "t/"},
		`Options.Table "a/../b": want names separated by slashes`:                     {Table: "a/../b"},
		`Options.Table "a//b": want names separated by slashes`:                       {Table: "a//b"},
		`Options.Units 399: want 400 to 1000; or 0 for the default`:                   {Units: 399},
		`Options.Units 1001: want 400 to 1000`:                                        {Units: 1001},
		`Options.Units -1: want 400`:                                                  {Units: -1},
		`Options.Entries -1: want 0 or more`:                                          {Entries: -1},
		`Options.Retention 59s: want 1m0s to 87600h0m0s, or forever; or 0 for the de`: {Retention: 59 * time.Second},
		`Options.Retention 87600h0m0.000000001s: want`:                                {Retention: maxRetention + 1},
		`Options.Timeout 1h0m0.000000001s: want 1ms to 1h0m0s; or 0 for the default`:  {Timeout: time.Hour + 1},
		`Options.Timeout -1ns: want`:                                                  {Timeout: -1},
		`Options.Timeout Infinite: want`:                                              {Timeout: abstractions.Infinite},
		`Options.Skew -1ns: want`:                                                     {Skew: -1},
		`Options.Skew 1m0.000000001s: want`:                                           {Skew: time.Minute + 1},
	} {
		err := Complete(&bad)
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}

func TestExactlyOne(t *testing.T) {
	for want, o := range map[string]Options{"URL": {URL: "x"}, "DSN": {DSN: "x", Table: "t"}, "Client": {Client: strings.NewReader("")}} {
		got, err := ExactlyOne(o, "URL", "DSN", "Client")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := ExactlyOne(Options{Table: "t"}, "URL", "DSN", "Client")
	require.EqualError(t, err, "invalid Options with none set: want exactly one of URL, DSN, or in Go Client")
	_, err = ExactlyOne(&Options{URL: "s3cret", DSN: "s3cret"}, "URL", "DSN", "Client")
	require.EqualError(t, err, "invalid Options with URL and DSN: want exactly one of URL, DSN, or in Go Client")
}

func TestDescribe(t *testing.T) {
	require.Equal(t, "providerkit.Options{}", fmt.Sprint(Options{}))
	o := Options{
		URL: "x://h", Client: strings.NewReader("s3cret"), Password: NewSecret("p"), Kind: "full", Units: 3, Create: true, Hosts: []string{"a"},
		Nested: nested{"s3cret"}, Retention: abstractions.Infinite, Timeout: time.Minute, private: 1,
	}
	require.Equal(t, `providerkit.Options{URL: (not shown), Client: *strings.Reader, Password: (not shown), Kind: "full", Create: true, `+
		`Units: 3, Hosts: [a], Nested: nested, Retention: forever, Timeout: 1m0s}`, Describe(&o))
}

// T49, T75: options and secrets never show the secret text, however they are printed.
func TestTrap_T75_NoWayToWriteShowsASecret(t *testing.T) {
	o := Options{URL: "x://u:s3cret@h", DSN: "s3cret", Password: NewSecret("s3cret")}
	type outer struct {
		O       Options
		P       *Options
		S       Secret
		private Secret
	}
	var shown bytes.Buffer
	loggers := []*slog.Logger{slog.New(slog.NewJSONHandler(&shown, nil)), slog.New(slog.NewTextHandler(&shown, nil))}
	for _, value := range []any{o, &o, NewSecret("s3cret"), new(Secret), outer{o, &o, NewSecret("s3cret"), NewSecret("s3cret")}, []Secret{NewSecret("s3cret")}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
			fmt.Fprintf(&shown, verb+"\n", value)
		}
		for _, logger := range loggers {
			logger.Info("opening", "value", value, slog.Group("in", "value", value))
		}
		text, err := json.Marshal(value)
		require.NoError(t, err)
		shown.Write(text)
	}
	require.Contains(t, shown.String(), "(not shown)")
	require.NotContains(t, shown.String(), "s3cret")
	require.NotContains(t, shown.String(), fmt.Sprintf("%x", "s3cret"))

	require.Equal(t, "s3cret", o.Password.Reveal())
	require.False(t, o.Password.IsZero())
	require.True(t, Secret{}.IsZero())
	require.True(t, NewSecret("").IsZero())
	require.Empty(t, Secret{}.Reveal())
}

// T49: errors about mistakes in a URL or in JSON never show a password.
func TestTrap_T49_NoErrorShowsAPassword(t *testing.T) {
	for _, text := range []string{
		"x://user:s3cret!pass", "x://user:12/s3cret@h:1", "x://user:12?s3cret@h:1/0", "x://user:12?x=s3cret@h:1/0", "x://user:12?s3cret=x@h:1/0",
		"x://user:12?s3cret=#@h:1/0", "x://user:12?s3cret", "x://user:12#s3cret@h:1/0", "x://user:%zzs3cret@h", "x://user:s3cret@h?timeout=%zz",
		"x://user:s3cret@h#s3cret", "y://user:s3cret@h", "user:s3cret@h", "s3cret", "x://h?dsn=s3cret", "x://h?password=s3cret!", "x://h?retention=s3cret!",
		"x://h?S3cret%21=1",
	} {
		u, err := ParseURL(text, "x")
		var rest url.Values
		var o Options
		if err == nil {
			rest, err = SetQuery(&o, u.Query)
		}
		if err == nil {
			err = UnknownParameter(&o, rest)
		}
		if err != nil {
			require.ErrorIs(t, err, abstractions.ErrInvalid, text)
			require.NotContains(t, strings.ToLower(err.Error()), "s3cret", text)
		}
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", u, u, u), "s3cret!")
		require.Equal(t, text == "x://user:s3cret!pass", err == nil, text) // without an @ the text is a host
	}
	for _, text := range []string{`{"url": "s3cret", "ttl": 3}`, `{"dsn": 3, "url": "s3cret"}`, `{"url": {"s3cret": 1}}`, `{"retention": "s3cret!"}`, `{"s3cret!": 1}`, `{"url": "s3cret}`} {
		err := json.Unmarshal([]byte(text), &Options{})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

// TestSomeJSONIsReadAsItIsWritten checks that options that encoding/json has written are
// read unchanged.
func TestSomeJSONIsReadAsItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Table: rapid.String().Draw(t, "table"), Create: rapid.Bool().Draw(t, "create"), Units: rapid.Int().Draw(t, "units"),
			Retention: time.Duration(rapid.Int64().Draw(t, "retention")),
		}
		text, err := json.Marshal(map[string]any{"table": o.Table, "create": o.Create, "units": o.Units, "retention": o.Retention.String()})
		require.NoError(t, err)
		var read Options
		require.NoError(t, json.Unmarshal(text, &read))
		o.Table = strings.ToValidUTF8(o.Table, "\ufffd")
		require.Equal(t, o, read)
	})
}
