package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/distributedleasing/leasing"
)

// UnmarshalText reads a mode, in upper or lower case.
func (m *Mode) UnmarshalText(text []byte) error {
	for _, known := range []Mode{Auto, ManagedIdentity, WorkloadIdentity, ServicePrincipal, FederatedCredential, Development} {
		if strings.EqualFold(string(known), string(text)) {
			*m = known
			return nil
		}
	}
	return &leasing.InvalidError{Field: "auth.Options.Mode", Value: string(text), Want: wantMode}
}

// UnmarshalJSON reads options. Fields and modes that it doesn't know are errors.
func (o *Options) UnmarshalJSON(data []byte) error {
	type plain Options // without this method
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode((*plain)(o))
	if named := (*leasing.InvalidError)(nil); errors.As(err, &named) {
		return named
	}
	if err != nil {
		// The error names a field, a type, an offset or a mode, never a value
		// of another field.
		return &leasing.InvalidError{Field: "auth.Options", Value: notShown, Want: "the JSON of auth.Options: " + err.Error()}
	}
	return nil
}

// String shows what is no secret.
func (o Options) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "auth.Options{Mode: %q", string(o.Mode))
	for _, s := range []struct {
		name     string
		settings fields
	}{
		{"ManagedIdentity", fields{{"ClientID", o.ManagedIdentity.ClientID}}},
		{"WorkloadIdentity", o.WorkloadIdentity.fields()},
		{"ServicePrincipal", o.ServicePrincipal.fields()},
		{"FederatedCredential", o.FederatedCredential.fields()},
		{"Development", fields{{"TenantID", o.Development.TenantID}}},
	} {
		if text := s.settings.String(); text != "" {
			fmt.Fprintf(&b, ", %s: {%s}", s.name, text)
		}
	}
	if text := (fields{{"Cloud", o.Cloud}, {"AuthorityHost", shownHost(o.AuthorityHost)}, {"Environment", o.Environment}}).String(); text != "" {
		b.WriteString(", " + text)
	}
	return b.String() + "}"
}

// fields are names and values.
type fields [][2]string

// String shows those that are not empty.
func (f fields) String() string {
	var shown []string
	for _, field := range f {
		if field[1] != "" {
			shown = append(shown, fmt.Sprintf("%s: %q", field[0], field[1]))
		}
	}
	return strings.Join(shown, ", ")
}

func (w WorkloadIdentityOptions) fields() fields {
	return fields{{"TenantID", w.TenantID}, {"ClientID", w.ClientID}, {"TokenFilePath", w.TokenFilePath}, {"Audience", w.Audience}}
}

func (s ServicePrincipalOptions) fields() fields {
	return fields{
		{"TenantID", s.TenantID}, {"ClientID", s.ClientID}, {"ClientSecret", hidden(s.ClientSecret)},
		{"CertificatePath", s.CertificatePath}, {"CertificatePassword", hidden(s.CertificatePassword)},
	}
}

func (f FederatedCredentialOptions) fields() fields {
	function := ""
	if f.Token != nil {
		function = "a function"
	}
	return fields{{"TenantID", f.TenantID}, {"ClientID", f.ClientID}, {"TokenFilePath", f.TokenFilePath}, {"Token", function}}
}

func hidden(secret string) string {
	if secret == "" {
		return ""
	}
	return notShown
}

// shownHost hides an address that validateAuthority would refuse.
func shownHost(host string) string {
	if host == "" || validateAuthority("", host) == nil {
		return host
	}
	return notShown
}

// GoString is String.
func (o Options) GoString() string { return o.String() }

// LogValue is String.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// MarshalJSON is String: options that hold secrets are not for writing down.
func (o Options) MarshalJSON() ([]byte, error) { return json.Marshal(o.String()) }

// String shows what is no secret.
func (s ServicePrincipalOptions) String() string {
	return "auth.ServicePrincipalOptions{" + s.fields().String() + "}"
}

// GoString is String.
func (s ServicePrincipalOptions) GoString() string { return s.String() }

// LogValue is String.
func (s ServicePrincipalOptions) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON is String.
func (s ServicePrincipalOptions) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
