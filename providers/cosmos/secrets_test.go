package cosmoslease

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	azlog "github.com/Azure/azure-sdk-for-go/sdk/azcore/log"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// secret is a key, as it is and as it is written in a URL.
const secret = "czNjcmV0LWtleS1vZi10aGUtYWNjb3VudA=="

// shown collects what a program may show.
type shown struct {
	bytes.Buffer
	logger *slog.Logger
}

func newShown() *shown {
	var s shown
	s.logger = slog.New(slog.NewJSONHandler(&s, nil))
	return &s
}

func (s *shown) show(values ...any) {
	for _, value := range values {
		fmt.Fprintf(s, "%v %+v %#v %s %q\n", value, value, value, value, value)
		s.logger.Info("opening", "value", value)
		if text, err := json.Marshal(value); err == nil {
			s.Write(text)
		}
	}
}

func (s *shown) hides(t *testing.T, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		require.NotEmpty(t, secret)
		if at := strings.Index(s.String(), secret); at >= 0 {
			t.Errorf("shown: ...%q", s.String()[max(0, at-300):at+len(secret)])
		}
	}
}

// everything shows the errors of all calls, and closes the provider.
func (s *shown) everything(t *testing.T, p *Provider) {
	g, err := p.Acquire(t.Context(), wish("n", "a", time.Minute))
	s.show(g, err, &abstractions.Error{Op: "acquire", Err: err})
	_, err = p.Renew(t.Context(), abstractions.RenewRequest{Name: "n", ID: "a", Token: 1, TTL: time.Minute})
	s.show(err)
	s.show(p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}), p.Ping(t.Context()))
	_, err = p.List(t.Context(), abstractions.ListRequest{})
	s.show(err, p, p.Capabilities())
	require.NoError(t, p.Close())
}

// T49: no error, no log and no printed struct shows a key, whatever mistake it was
// written with.
func TestTrap_T49_KeysAreNotShown(t *testing.T) {
	s := newShown()
	account := cosmostest.New(cosmostest.Options{Key: testKey}) // another one: each call is refused
	service := httptest.NewServer(account)
	defer service.Close()
	host := service.Listener.Addr().String()
	inURL := url.QueryEscape(secret)
	for _, o := range []Options{
		{Endpoint: service.URL, Key: secret, Database: "d", Container: "c"},
		{Endpoint: service.URL, Key: secret + "!", Database: "d", Container: "c"},
		{Endpoint: "https://:" + secret + "@h", Key: secret},
		{Endpoint: service.URL, Key: secret, Auth: auth.Options{Mode: auth.Auto}},
		{ConnectionString: "AccountEndpoint=" + service.URL + ";AccountKey=" + secret + ";", Database: "d", Container: "c"},
		{ConnectionString: "AccountEndpoint=x;AccountKey=" + secret + ";"},
		{ConnectionString: "AccountEndpoint;" + secret},
		{ConnectionString: secret},
		{URL: "cosmos+http://:" + inURL + "@" + host + "/d/c"},
		{URL: "cosmos+http://:" + inURL + "@" + host + "/d/c", Key: secret},
		{URL: "cosmos://:" + secret + "@h/d/c/" + secret},
		{URL: "cosmos://:a/" + secret + "@h/d/c"},
		{URL: "cosmos://:a?" + secret + "@h/d/c"},
		{URL: "cosmos://:a#" + secret + "@h/d/c"},
		{URL: "cosmos://:%zz" + secret + "@h/d/c"},
		{URL: "cosmos://" + secret + "@h/d/c"},
		{URL: "cosmos://" + secret + ":x@h/d/c"},
		{URL: "cosmos://h/d/c?key=" + secret},
		{URL: "mysql://:" + secret + "@h/d/c"},
		{URL: "cosmos://:" + inURL + "@nowhere.invalid:1/d/c", Timeout: time.Second},
	} {
		s.show(o, &o, struct{ O Options }{o})
		p, err := Open(t.Context(), o)
		s.show(err)
		if err == nil {
			s.everything(t, p)
		}
	}
	s.show(json.Unmarshal([]byte(`{"key": "`+secret+`", "nothing": 3}`), &Options{}))
	s.show(json.Unmarshal([]byte(`{"key": 3, "connection_string": "`+secret+`"}`), &Options{}))
	s.show(json.Unmarshal([]byte(`{"auth": {"Mode": "x", "ServicePrincipal": {"ClientSecret": "`+secret+`"}}}`), &Options{}))
	s.hides(t, secret, inURL)
}

// The same for tokens and client secrets, with all that azcore logs.
func TestTrap_T49_TokensAreNotShown(t *testing.T) {
	s := newShown()
	azlog.SetListener(func(_ azlog.Event, text string) { s.WriteString(text) })
	defer azlog.SetListener(nil)
	server := authtest.Start(t)
	account := cosmostest.New(cosmostest.Options{Token: func(token string) error { return server.Check(token, "http://elsewhere") }})
	service := httptest.NewServer(account)
	defer service.Close()
	for _, o := range []auth.Options{server.ClientSecret(), server.ManagedIdentity(), server.Federated()} {
		options := Options{Endpoint: service.URL, Auth: o, Database: "d", Container: "c"}
		s.show(options)
		s.everything(t, openTest(t, options))
		server.Fail(500)
		s.everything(t, openTest(t, options))
		server.Fail(0)
	}
	s.hides(t, server.Secrets()...)
}

// T49: a key in the place of something else is not shown by the error that says so.
func TestTrap_T49_AKeyInTheWrongPlaceIsNotShown(t *testing.T) {
	for _, rest := range []string{
		"?auth=" + secret, "?" + secret, "?" + secret + "=x", "?throughput=" + secret, "?create=" + secret, "?retention=" + secret,
		"?auth=" + strings.Repeat("k", 40), "?" + strings.Repeat("k", 40) + "=", "?key=" + secret,
	} {
		_, err := OpenURL(t.Context(), "cosmos://account.documents.azure.com/db/c"+rest)
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		s := newShown()
		s.show(err)
		s.hides(t, strings.TrimRight(secret, "="), strings.Repeat("k", 40))
	}
	_, err := OpenURL(t.Context(), "cosmos://account.documents.azure.com/db/c?auth=Manged")
	require.ErrorContains(t, err, "Manged")
	_, err = OpenURL(t.Context(), "cosmos://account.documents.azure.com/db/c?retenton=1h")
	require.ErrorContains(t, err, "retenton")
}
