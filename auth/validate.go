package auth

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"

	"github.com/distributedleasing/leasing"
)

// notShown stands for what may be a secret.
const notShown = "(not shown)"

const wantMode = "Auto, ManagedIdentity, WorkloadIdentity, ServicePrincipal, FederatedCredential or Development"

// invalid is an error about a field of Options, or of one of its structs, or a
// variable.
func invalid(field string, value any, want string) error {
	return &leasing.InvalidError{Field: field, Value: value, Want: want}
}

// Validate reports what New would refuse, but for what is wrong with the files
// that the options name: it opens none. The error is a *leasing.InvalidError.
func (o Options) Validate() error {
	_, err := o.complete()
	return err
}

// complete fills in what the environment says and validates the result. Doing it
// twice is the same as once.
func (o Options) complete() (Options, error) {
	if !o.Mode.known() {
		return o, invalid("auth.Options.Mode", string(o.Mode), wantMode)
	}
	if err := o.validateModeOnly(); err != nil {
		return o, err
	}
	if _, err := o.CloudConfiguration(); err != nil {
		return o, err
	}
	if o.AuthorityHost != "" && (o.Mode == ManagedIdentity || o.Mode == Development) {
		return o, invalid("auth.Options.AuthorityHost", o.AuthorityHost, "nothing in mode "+string(o.Mode)+", which asks no authority")
	}
	return o, o.completeMode()
}

func (o *Options) completeMode() error {
	switch o.Mode {
	case ManagedIdentity:
		return o.ManagedIdentity.validate()
	case WorkloadIdentity:
		return o.WorkloadIdentity.complete()
	case ServicePrincipal:
		return o.ServicePrincipal.complete()
	case FederatedCredential:
		return o.FederatedCredential.complete()
	case Development:
		if s := o.stage(); s.production {
			return invalid("auth.Options.Mode", string(o.Mode), "another mode in production: "+s.from)
		}
		return o.Development.validate()
	}
	return o.completeAuto()
}

// completeAuto looks at the settings that Auto shares with other modes. What the
// environment has for it is read when the chain is made: see plan.
func (o *Options) completeAuto() error {
	if err := o.ManagedIdentity.validate(); err != nil {
		return err
	}
	if o.WorkloadIdentity != (WorkloadIdentityOptions{}) {
		if err := o.WorkloadIdentity.complete(); err != nil {
			return err
		}
	}
	return o.Development.validate()
}

func (m Mode) known() bool {
	switch m {
	case Auto, ManagedIdentity, WorkloadIdentity, ServicePrincipal, FederatedCredential, Development:
		return true
	}
	return false
}

// validateModeOnly refuses what another mode would read and this one would not.
func (o Options) validateModeOnly() error {
	for _, s := range []struct {
		mode     Mode
		settings any
		inAuto   bool
	}{
		{ManagedIdentity, o.ManagedIdentity, true},
		{WorkloadIdentity, o.WorkloadIdentity, true},
		{ServicePrincipal, o.ServicePrincipal, false},
		{FederatedCredential, o.FederatedCredential, false},
		{Development, o.Development, true},
	} {
		if s.mode == o.Mode || s.inAuto && o.Mode == Auto || reflect.ValueOf(s.settings).IsZero() {
			continue
		}
		return invalid("auth.Options."+string(s.mode), notShown, fmt.Sprintf("nothing: it is for mode %s, this is %s", s.mode, o.Mode))
	}
	return nil
}

func (m ManagedIdentityOptions) validate() error {
	return optional("ManagedIdentity.ClientID", m.ClientID, id, wantID)
}

func (d DevelopmentOptions) validate() error {
	return optional("Development.TenantID", d.TenantID, tenant, wantTenant)
}

func (w *WorkloadIdentityOptions) complete() error {
	defaultToVariable(&w.TenantID, envTenantID)
	defaultToVariable(&w.ClientID, envClientID)
	defaultToVariable(&w.TokenFilePath, envTokenFile)
	if err := identity("WorkloadIdentity", w.TenantID, w.ClientID); err != nil {
		return err
	}
	if w.TokenFilePath != "" && w.Audience != "" {
		return invalid("auth.Options.WorkloadIdentity.Audience", w.Audience, "nothing with a token file: its token has an audience")
	}
	if w.TokenFilePath == "" {
		return validateGitHub()
	}
	return nil
}

func (s *ServicePrincipalOptions) complete() error {
	defaultToVariable(&s.TenantID, envTenantID)
	defaultToVariable(&s.ClientID, envClientID)
	if err := identity("ServicePrincipal", s.TenantID, s.ClientID); err != nil {
		return err
	}
	if s.ClientSecret == "" && s.CertificatePath == "" {
		if err := s.fromVariables(); err != nil {
			return err
		}
	}
	switch {
	case s.ClientSecret == "" && s.CertificatePath == "":
		return invalid("auth.Options.ServicePrincipal", "with neither", "ClientSecret or CertificatePath; or "+envClientSecret+" or "+envCertificatePath)
	case s.ClientSecret != "" && s.CertificatePath != "":
		return invalid("auth.Options.ServicePrincipal", "with both", "ClientSecret or CertificatePath, not both")
	case s.ClientSecret != "" && s.CertificatePassword != "":
		return invalid("auth.Options.ServicePrincipal.CertificatePassword", notShown, "nothing with a ClientSecret")
	case s.ClientSecret != "" && s.SendCertificateChain:
		return invalid("auth.Options.ServicePrincipal.SendCertificateChain", true, "false with a ClientSecret")
	}
	return nil
}

// fromVariables takes the secret, or else the certificate, from the environment.
// Of two in the environment azidentity takes the secret, and so does this.
func (s *ServicePrincipalOptions) fromVariables() error {
	if s.CertificatePassword != "" {
		return invalid("auth.Options.ServicePrincipal.CertificatePassword", notShown, "nothing without a CertificatePath")
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
	defaultToVariable(&f.TenantID, envTenantID)
	defaultToVariable(&f.ClientID, envClientID)
	if err := identity("FederatedCredential", f.TenantID, f.ClientID); err != nil {
		return err
	}
	if f.Token == nil {
		defaultToVariable(&f.TokenFilePath, envTokenFile)
	}
	switch {
	case f.Token == nil && f.TokenFilePath == "":
		return invalid("auth.Options.FederatedCredential", "with neither", "TokenFilePath or Token; or "+envTokenFile)
	case f.Token != nil && f.TokenFilePath != "":
		return invalid("auth.Options.FederatedCredential", "with both", "TokenFilePath or Token, not both")
	}
	return nil
}

var (
	// tenant is what azidentity takes for one: a GUID or a domain.
	tenant = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)
	// id is a GUID; what is pasted with a blank or a line's end is not.
	id = regexp.MustCompile(`^[!-~]+$`)
)

const (
	wantTenant = "a directory (tenant): a GUID or a domain"
	wantID     = "a client ID: a GUID"
)

// identity is what all modes need that ask Entra ID for themselves.
func identity(mode, tenantID, clientID string) error {
	if !tenant.MatchString(tenantID) {
		return invalid("auth.Options."+mode+".TenantID", tenantID, wantTenant+"; or "+envTenantID)
	}
	if !id.MatchString(clientID) {
		return invalid("auth.Options."+mode+".ClientID", clientID, wantID+"; or "+envClientID)
	}
	return nil
}

func optional(field, value string, pattern *regexp.Regexp, want string) error {
	if value == "" || pattern.MatchString(value) {
		return nil
	}
	return invalid("auth.Options."+field, value, want)
}
