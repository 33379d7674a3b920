package auth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/log"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/stretchr/testify/require"
)

// shown is a credentialtest.Shown that also records azcore's log.
type shown struct{ credentialtest.Shown }

func newShown(t *testing.T) *shown {
	t.Helper()
	var s shown
	log.SetListener(func(event log.Event, text string) { s.Show(event, text) })
	t.Cleanup(func() { log.SetListener(nil) })
	return &s
}

// showError prints an error and each error in its chain.
func (s *shown) showError(err error) {
	if err == nil {
		return
	}
	s.Show(err)
	switch wrapper := err.(type) { //nolint:errorlint // each link of the chain in turn
	case interface{ Unwrap() error }:
		s.showError(wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			s.showError(inner)
		}
	}
}

// T49: printed options, explanations, errors and azcore's log show no secret, whatever the server
// answers.
func TestTrap_T49_SecretsAreNotShown(t *testing.T) {
	clearEnvironment(t)
	authtest.Each(t, func(t *testing.T, server *authtest.Server, options auth.Options) {
		s := newShown(t)
		server.SetLifetime(time.Minute) // each token is a new one
		s.Show(options, &options, struct{ O auth.Options }{options}, options.ServicePrincipal, &options.ServicePrincipal, auth.Explain(options))
		credential, err := auth.New(options)
		require.NoError(t, err)
		s.Show(credential)
		_, err = credential.GetToken(t.Context(), request())
		require.NoError(t, err)
		server.Fail(http.StatusUnauthorized)
		options.Client.Transport = echoRequests(options.Client.Transport)
		credential, err = auth.New(options)
		require.NoError(t, err)
		_, err = credential.GetToken(t.Context(), request())
		s.showError(err)
		server.Fail(0)
		options.Client.Transport = breakAnswers(options.Client.Transport)
		credential, err = auth.New(options)
		require.NoError(t, err)
		if _, err = credential.GetToken(t.Context(), request()); options.Mode != auth.Development {
			require.Error(t, err)
		}
		s.showError(err)
		s.Hides(t, server.Secrets()...)
	})
}

type doer interface {
	Do(*http.Request) (*http.Response, error)
}

// echoRequests copies the request into the body of a failure response, like some proxies.
func echoRequests(inner doer) transport {
	return func(r *http.Request) (*http.Response, error) {
		var sent []byte
		if r.Body != nil {
			sent, _ = io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(sent))
		}
		response, err := inner.Do(r)
		if err == nil && response.StatusCode != http.StatusOK {
			response.Body.Close()
			text, _ := json.Marshal(map[string]string{"error": "invalid_request", "error_description": string(sent) + fmt.Sprint(r.Header), "sent": string(sent)})
			response.Body = io.NopCloser(bytes.NewReader(text))
		}
		return response, err
	}
}

// breakAnswers cuts off the last bytes of answers that contain a token.
func breakAnswers(inner doer) transport {
	return func(r *http.Request) (*http.Response, error) {
		response, err := inner.Do(r)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if bytes.Contains(text, []byte("eyJ")) {
			text = bytes.TrimRight(text, "}\n \"")
		}
		response.Body = io.NopCloser(bytes.NewReader(text))
		return response, errors.Join(err)
	}
}

// T49: an error names the refused field and does not show its value.
func TestTrap_T49_RefusedOptionsAreNotShown(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("AZURE_CLIENT_ID", "c")
	s := newShown(t)
	principal := func(p auth.ServicePrincipalOptions) auth.Options {
		return auth.Options{Mode: auth.ServicePrincipal, ServicePrincipal: p}
	}
	for _, options := range []auth.Options{
		{ServicePrincipal: auth.ServicePrincipalOptions{ClientSecret: "s3cret", CertificatePassword: "s3cret"}},
		{Mode: auth.Auto, ServicePrincipal: auth.ServicePrincipalOptions{ClientSecret: "s3cret"}},
		principal(auth.ServicePrincipalOptions{ClientSecret: "s3cret"}),
		principal(auth.ServicePrincipalOptions{ClientSecret: "s3cret", TenantID: "t", SendCertificateChain: true}),
		principal(auth.ServicePrincipalOptions{ClientSecret: "s3cret", TenantID: "t", CertificatePath: "p", CertificatePassword: "s3cret"}),
		principal(auth.ServicePrincipalOptions{ClientSecret: "s3cret", TenantID: "t", CertificatePassword: "s3cret"}),
		principal(auth.ServicePrincipalOptions{TenantID: "t", CertificatePassword: "s3cret"}),
		{Mode: auth.Auto, AuthorityHost: "https://user:s3cret@host"},
		{Mode: auth.Auto, AuthorityHost: "https://user:s3cret@host/\x00"},
		{Mode: auth.Auto, AuthorityHost: "user:s3cret@host"},
	} {
		s.Show(options, &options, struct{ O auth.Options }{options}, auth.Explain(options))
		s.showError(options.Validate())
		_, err := auth.New(options)
		s.showError(err)
		require.Error(t, err)
	}
	for _, text := range []string{
		`{"service_principal":{"client_secret":"s3cret","certificate_password":{"x":"s3cret"}}}`,
		`{"service_principal":{"client_secret":["s3cret"]}}`,
		`{"service_principal":{"ClientSecrets":"s3cret"}}`,
		`{"service_principal":"s3cret"}`,
	} {
		var o auth.Options
		err := json.Unmarshal([]byte(text), &o)
		require.Error(t, err)
		s.showError(err)
		s.Show(o)
	}
	s.Hides(t, "s3cret")
}

// Printed options have all fields that are set, without the secrets.
func TestPrinting(t *testing.T) {
	o := auth.Options{Mode: auth.ServicePrincipal, Cloud: auth.AzureChina, ServicePrincipal: auth.ServicePrincipalOptions{TenantID: "t", ClientID: "c", ClientSecret: "s"}}
	const want = `auth.Options{Mode: "ServicePrincipal", ServicePrincipal: auth.ServicePrincipalOptions{TenantID: "t", ClientID: "c", ClientSecret: (not shown)}, Cloud: "AzureChina"}`
	require.Equal(t, want, fmt.Sprint(o))
	require.Equal(t, want, fmt.Sprintf("%#v", o))
	require.Equal(t, `auth.ServicePrincipalOptions{TenantID: "t", ClientID: "c", ClientSecret: (not shown)}`, fmt.Sprint(o.ServicePrincipal))
}
