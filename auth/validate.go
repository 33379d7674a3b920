package auth

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

const notShown = providerkit.NotShown

var modes = []Mode{Auto, ManagedIdentity, WorkloadIdentity, ServicePrincipal, FederatedCredential, Development}

const wantMode = "Auto, ManagedIdentity, WorkloadIdentity, ServicePrincipal, FederatedCredential or Development"

// invalid returns an error about a field of Options or of one of its structs, or about
// a variable.
func invalid(field string, value any, want string) error {
	return &leasing.InvalidError{Field: field, Value: value, Want: want}
}

// Validate returns the error that New would return for the options. It does not open the files that
// the options name. The error is a *leasing.InvalidError.
func (o Options) Validate() error {
	_, err := o.complete()
	return err
}

// complete fills in values from the environment and validates the result. It is idempotent.
func (o Options) complete() (Options, error) {
	if !slices.Contains(modes, o.Mode) {
		return o, invalid("auth.Options.Mode", string(o.Mode), wantMode)
	}
	settings := []struct {
		mode     Mode
		settings interface{ complete() error }
		inAuto   bool
	}{
		{ManagedIdentity, &o.ManagedIdentity, true},
		{WorkloadIdentity, &o.WorkloadIdentity, true},
		{ServicePrincipal, &o.ServicePrincipal, false},
		{FederatedCredential, &o.FederatedCredential, false},
		{Development, &o.Development, true},
	}
	isSet := func(settings any) bool { return !reflect.ValueOf(settings).Elem().IsZero() }
	for _, s := range settings {
		if isSet(s.settings) && s.mode != o.Mode && (o.Mode != Auto || !s.inAuto) {
			return o, invalid("auth.Options."+string(s.mode), notShown, fmt.Sprintf("no value, since it is for mode %s and the mode is %s", s.mode, o.Mode))
		}
	}
	if _, err := o.CloudConfiguration(); err != nil {
		return o, err
	}
	if o.AuthorityHost != "" && (o.Mode == ManagedIdentity || o.Mode == Development) {
		return o, invalid("auth.Options.AuthorityHost", o.AuthorityHost, "no value in mode "+string(o.Mode)+", which asks no authority")
	}
	if stage, from := o.stage(); o.Mode == Development && stage == production {
		return o, invalid("auth.Options.Mode", string(o.Mode), "another mode in production: "+from)
	}
	for _, s := range settings {
		// Auto reads the other settings from the environment when its links are made.
		if s.mode == o.Mode || o.Mode == Auto && isSet(s.settings) {
			if err := s.settings.complete(); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}

func (m *ManagedIdentityOptions) complete() error {
	return optional("ManagedIdentity.ClientID", m.ClientID, id, wantID)
}

func (d *DevelopmentOptions) complete() error {
	return optional("Development.TenantID", d.TenantID, tenant, wantTenant)
}

func (w *WorkloadIdentityOptions) complete() error {
	defaultToVariable(&w.TokenFilePath, envTokenFile)
	if err := identity("WorkloadIdentity", &w.TenantID, &w.ClientID); err != nil {
		return err
	}
	if w.TokenFilePath != "" && w.Audience != "" {
		return invalid("auth.Options.WorkloadIdentity.Audience", w.Audience, "no value with a token file, whose token has an audience")
	}
	if w.TokenFilePath == "" {
		return validateGitHub()
	}
	return nil
}

func (s *ServicePrincipalOptions) complete() error {
	if err := identity("ServicePrincipal", &s.TenantID, &s.ClientID); err != nil {
		return err
	}
	if s.ClientSecret == "" && s.CertificatePath == "" {
		if err := s.fromVariables(); err != nil {
			return err
		}
	}
	switch {
	case s.ClientSecret != "" && s.CertificatePath == "" && s.CertificatePassword != "":
		return invalid("auth.Options.ServicePrincipal.CertificatePassword", notShown, "no value with a ClientSecret")
	case s.ClientSecret != "" && s.SendCertificateChain:
		return invalid("auth.Options.ServicePrincipal.SendCertificateChain", true, "false with a ClientSecret")
	}
	return exactlyOne("ServicePrincipal", s.ClientSecret != "", s.CertificatePath != "",
		"ClientSecret or CertificatePath; or "+envClientSecret+" or "+envCertificatePath)
}

// fromVariables reads the secret, or else the certificate, from the environment. If
// both are set, it uses the secret, like azidentity.
func (s *ServicePrincipalOptions) fromVariables() error {
	if s.CertificatePassword != "" {
		return invalid("auth.Options.ServicePrincipal.CertificatePassword", notShown, "no value without a CertificatePath")
	}
	if s.ClientSecret = os.Getenv(envClientSecret); s.ClientSecret != "" {
		return nil
	}
	if s.CertificatePath = os.Getenv(envCertificatePath); s.CertificatePath == "" {
		return nil
	}
	s.CertificatePassword = os.Getenv(envCertificatePassword)
	if text := os.Getenv(envSendChain); text != "" {
		send, err := strconv.ParseBool(text)
		if err != nil {
			return invalid(envSendChain, text, "true or false")
		}
		s.SendCertificateChain = s.SendCertificateChain || send
	}
	return nil
}

func (f *FederatedCredentialOptions) complete() error {
	if err := identity("FederatedCredential", &f.TenantID, &f.ClientID); err != nil {
		return err
	}
	if f.Token == nil {
		defaultToVariable(&f.TokenFilePath, envTokenFile)
	}
	return exactlyOne("FederatedCredential", f.Token != nil, f.TokenFilePath != "", "TokenFilePath or Token; or "+envTokenFile)
}

func exactlyOne(mode string, first, second bool, want string) error {
	switch {
	case first && second:
		return invalid("auth.Options."+mode, "with both", "exactly one of "+want)
	case !first && !second:
		return invalid("auth.Options."+mode, "with neither", "exactly one of "+want)
	}
	return nil
}

var (
	// tenant matches a tenant as azidentity accepts it: a GUID or a domain.
	tenant = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)
	// id matches text without blanks or line ends, which may slip in when a GUID is pasted.
	id = regexp.MustCompile(`^[!-~]+$`)
)

const (
	wantTenant = "a directory (tenant): a GUID or a domain"
	wantID     = "a client ID: a GUID"
)

// identity completes the tenant and the client ID, for all modes that send their own
// requests to Entra ID.
func identity(mode string, tenantID, clientID *string) error {
	defaultToVariable(tenantID, envTenantID)
	defaultToVariable(clientID, envClientID)
	if !tenant.MatchString(*tenantID) {
		return invalid("auth.Options."+mode+".TenantID", *tenantID, wantTenant+"; or "+envTenantID)
	}
	if !id.MatchString(*clientID) {
		return invalid("auth.Options."+mode+".ClientID", *clientID, wantID+"; or "+envClientID)
	}
	return nil
}

func optional(field, value string, pattern *regexp.Regexp, want string) error {
	if value == "" || pattern.MatchString(value) {
		return nil
	}
	return invalid("auth.Options."+field, value, want)
}
