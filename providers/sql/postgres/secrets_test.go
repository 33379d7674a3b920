package postgreslease

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// T49, T75: no print, log, JSON or error shows a password, even if the options with the
// password contain a mistake.
func TestTrap_T75_OptionsShowNoSecret(t *testing.T) {
	var shown bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&shown, nil))
	for _, options := range []Options{
		{URL: "postgres://app:s3cret@127.0.0.1:1/app"},
		{URL: "postgres://app@127.0.0.1:1/app?password=s3cret"},
		{URL: "postgres://app:12?s3cret@h/app"},
		{URL: "postgres://app:12?x=s3cret@h/app"},
		{URL: "postgres://app:12?s3cret=x@h/app"},
		{URL: "postgres://app:12?s3cret"},
		{URL: "postgres://app:12#s3cret@h/app"},
		{URL: "postgres://app:12/s3cret@h/app"},
		{URL: "postgres://app:%zzs3cret@h/app"},
		{URL: "postgres://app:s3cret@h:bad/app"},
		{URL: "postgres://app:s3cret@h/app?retention=5"},
		{URL: "mysql://app:s3cret@h/app"},
		{URL: "app:s3cret@h"},
		{DSN: "host=127.0.0.1 port=1 password=s3cret"},
		{DSN: "host=h password='s3cret"},
		{DSN: "postgres://app:s3cret@h:bad/app"},
		{URL: "postgres://app:s3cret@127.0.0.1:1/d?table=%zz"},
		{DSN: "password=s3cret port=none"},
		{DSN: "password = p s3cret x"}, // pgx quotes this text in its error
		{URL: "postgres://app:s3cret@h/app", DSN: "password=s3cret"},
	} {
		fmt.Fprintf(&shown, "%v %+v %#v %s %q %v\n", options, options, options, options, options, &options)
		fmt.Fprintf(&shown, "%v %+v %#v\n", struct{ O Options }{options}, &struct{ O Options }{options}, []Options{options})
		logger.Info("opening", "options", options, "pointer", &options, "inside", struct{ O Options }{options})
		text, err := json.Marshal(map[string]any{"options": options, "pointer": &options})
		require.NoError(t, err)
		shown.Write(text)
		p, err := Open(t.Context(), options)
		fmt.Fprintf(&shown, "%v %+v %#v\n", err, err, err)
		if err == nil {
			fmt.Fprintf(&shown, "%v\n", p.Ping(t.Context()))
			require.NoError(t, p.Close())
		}
	}
	fmt.Fprintln(&shown, json.Unmarshal([]byte(`{"url": "postgres://u:s3cret@h/d", "ttl": 3}`), &Options{}))
	require.NotContains(t, shown.String(), "s3cret")
	require.Contains(t, shown.String(), "not shown")
}

// An unescaped ? ends the URL in the middle of the password.
func TestTrap_T75_UnescapedPasswordIsRefused(t *testing.T) {
	for _, rawURL := range []string{"postgres://app:12?34@h/app", "postgres://app:12?a=b@h/app", "postgres://app:12?34", "postgres://app:1#2@h/app"} {
		_, err := OpenURL(t.Context(), rawURL)
		require.ErrorContains(t, err, "%3F", rawURL)
	}
}
