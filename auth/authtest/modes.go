package authtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/distributedleasing/leasing/auth"
)

// Each runs a test in every mode of package auth, with a separate server on loopback for each mode.
// It sets environment variables, so neither the test nor a parent test can be parallel.
func Each(t *testing.T, run func(t *testing.T, server *Server, options auth.Options)) {
	t.Helper()
	for _, mode := range []struct {
		name    string
		options func(*Server) auth.Options
	}{
		{"ClientSecret", (*Server).ClientSecret},
		{"Certificate", (*Server).Certificate},
		{"ManagedIdentity", (*Server).ManagedIdentity},
		{"WorkloadIdentity", (*Server).WorkloadIdentity},
		{"GitHubActions", (*Server).GitHubActions},
		{"Federated", (*Server).Federated},
		{"Development", (*Server).Development},
	} {
		t.Run(mode.name, func(t *testing.T) {
			server := Start(t)
			run(t, server, mode.options(server))
		})
	}
}

// EachFile runs a test in each mode that reads a file: see Rotate.
func EachFile(t *testing.T, run func(t *testing.T, server *Server, options auth.Options)) {
	t.Helper()
	for name, options := range map[string]func(*Server) auth.Options{
		"Certificate": (*Server).Certificate, "WorkloadIdentity": (*Server).WorkloadIdentity, "FederatedFile": (*Server).FederatedFile,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := Start(t)
			run(t, server, options(server))
		})
	}
}

// ClientSecret returns options of mode ServicePrincipal with a secret.
func (s *Server) ClientSecret() auth.Options {
	o := s.options(auth.ServicePrincipal)
	o.ServicePrincipal = auth.ServicePrincipalOptions{TenantID: TenantID, ClientID: ClientID, ClientSecret: s.secret}
	return o
}

// Certificate returns options of mode ServicePrincipal with a certificate in a PKCS#12 file that
// has a password.
func (s *Server) Certificate() auth.Options {
	s.t.Helper()
	o := s.options(auth.ServicePrincipal)
	o.ServicePrincipal = auth.ServicePrincipalOptions{
		TenantID: TenantID, ClientID: ClientID, CertificatePath: s.rotatedFile("certificate.pfx", s.certificate), CertificatePassword: certificatePassword,
	}
	return o
}

// ManagedIdentity returns options of that mode, with a user-assigned identity of an app service. It
// sets environment variables.
func (s *Server) ManagedIdentity() auth.Options {
	s.t.Helper()
	s.t.Setenv("IDENTITY_ENDPOINT", s.base+"/identity")
	s.t.Setenv("IDENTITY_HEADER", s.header)
	s.t.Setenv("IDENTITY_SERVER_THUMBPRINT", "") // otherwise azidentity assumes Service Fabric
	o := s.options(auth.ManagedIdentity)
	o.AuthorityHost = "" // the mode sends no request to the authority
	o.ManagedIdentity.ClientID = s.identity
	return o
}

// WorkloadIdentity returns options of that mode, with a token in a file as in Kubernetes: see
// Rotate.
func (s *Server) WorkloadIdentity() auth.Options {
	s.t.Helper()
	o := s.options(auth.WorkloadIdentity)
	o.WorkloadIdentity = auth.WorkloadIdentityOptions{TenantID: TenantID, ClientID: ClientID, TokenFilePath: s.subjectFile()}
	return o
}

// GitHubActions returns options of mode WorkloadIdentity, as in a job. It sets environment variables.
func (s *Server) GitHubActions() auth.Options {
	s.t.Helper()
	s.t.Setenv("AZURE_FEDERATED_TOKEN_FILE", "")
	s.t.Setenv("ACTIONS_ID_TOKEN_REQUEST_URL", s.base+"/job?api-version=2.0")
	s.t.Setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", s.job)
	o := s.options(auth.WorkloadIdentity)
	o.WorkloadIdentity = auth.WorkloadIdentityOptions{TenantID: TenantID, ClientID: ClientID}
	return o
}

// Federated returns options of mode FederatedCredential with a function.
func (s *Server) Federated() auth.Options {
	o := s.options(auth.FederatedCredential)
	o.FederatedCredential = auth.FederatedCredentialOptions{TenantID: TenantID, ClientID: ClientID, Token: s.subject}
	return o
}

// FederatedFile returns options of mode FederatedCredential with a file: see Rotate.
func (s *Server) FederatedFile() auth.Options {
	s.t.Helper()
	o := s.options(auth.FederatedCredential)
	o.FederatedCredential = auth.FederatedCredentialOptions{TenantID: TenantID, ClientID: ClientID, TokenFilePath: s.subjectFile()}
	return o
}

func (s *Server) options(mode auth.Mode) auth.Options {
	o := auth.Options{Mode: mode, AuthorityHost: s.base}
	o.Client.Transport = s.transport
	return o
}

func (s *Server) subject(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newSubject(), nil
}

func (s *Server) subjectFile() string {
	s.t.Helper()
	return s.rotatedFile("token", func() string { return s.newSubject() + "\n" })
}

// rotatedFile writes a file that Rotate replaces.
func (s *Server) rotatedFile(name string, contents func() string) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[path] = contents
	s.write(path, contents())
	return path
}

// write replaces a file atomically, as in Kubernetes.
func (s *Server) write(path, text string) {
	s.t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		s.t.Errorf("authtest: %v", err)
		return
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Errorf("authtest: %v", err)
	}
}
