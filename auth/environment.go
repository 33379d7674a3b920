package auth

import (
	"os"
	"strings"
)

// The variables that azidentity and Azure's own webhooks use
// (learn.microsoft.com/azure/developer/go/sdk/authentication/authentication-on-premises-apps,
// azure.github.io/azure-workload-identity/docs), GitHub's
// (docs.github.com/actions/reference/security/oidc), and two of this package.
const (
	envMode  = "LEASING_AUTH_MODE"
	envCloud = "LEASING_AUTH_CLOUD"

	envTenantID            = "AZURE_TENANT_ID"
	envClientID            = "AZURE_CLIENT_ID"
	envClientSecret        = "AZURE_CLIENT_SECRET"
	envCertificatePath     = "AZURE_CLIENT_CERTIFICATE_PATH"
	envCertificatePassword = "AZURE_CLIENT_CERTIFICATE_PASSWORD"
	envSendChain           = "AZURE_CLIENT_SEND_CERTIFICATE_CHAIN"
	envTokenFile           = "AZURE_FEDERATED_TOKEN_FILE"
	envAuthorityHost       = "AZURE_AUTHORITY_HOST"

	envGitHubURL   = "ACTIONS_ID_TOKEN_REQUEST_URL"
	envGitHubToken = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
)

// EnvironmentVariables returns the names of the variables that may say where a
// program runs: production, staging, or anything else. AZURE_ENVIRONMENT is not
// among them: it names a cloud.
func EnvironmentVariables() []string {
	return []string{
		"ENVIRONMENT", "APP_ENV", "GO_ENV",
		"DOTNET_ENVIRONMENT", "ASPNETCORE_ENVIRONMENT", "AZURE_FUNCTIONS_ENVIRONMENT",
	}
}

// FromEnvironment reads options from the environment: see the table of the package's
// documentation. Without LEASING_AUTH_MODE the mode is Auto. A missing or wrong
// variable is reported as a *leasing.InvalidError.
func FromEnvironment() (Options, error) {
	o := Options{Mode: Auto, Cloud: os.Getenv(envCloud)}
	if text := os.Getenv(envMode); text != "" {
		if err := o.Mode.UnmarshalText([]byte(text)); err != nil {
			return Options{}, invalid(envMode, text, wantMode)
		}
	}
	if o.Mode == ManagedIdentity {
		o.ManagedIdentity.ClientID = os.Getenv(envClientID)
	}
	return o.complete()
}

// UnmarshalText reads a mode, in upper or lower case, as written in the URLs of
// providers. The settings of the mode come from the environment. "Environment" stands
// for FromEnvironment.
func (o *Options) UnmarshalText(text []byte) (err error) {
	if !o.IsZero() {
		return invalid("auth.Options", o.Mode, "a mode alone, without other settings")
	}
	if strings.EqualFold(string(text), "Environment") {
		*o, err = FromEnvironment()
		return err
	}
	return o.Mode.UnmarshalText(text)
}

// stage is the stage of a deployment. A stricter stage has a greater value.
type stage int

const (
	elsewhere stage = iota
	staging
	production
)

// stage reads Environment, or else all of the variables; the strictest value counts. from is the
// source of the result, such as "ENVIRONMENT=Production".
func (o Options) stage() (strictest stage, from string) {
	stages := map[string]stage{"production": production, "prod": production, "staging": staging, "stage": staging}
	look := func(name, word string) {
		word = strings.TrimSpace(word)
		if s := stages[strings.ToLower(word)]; s > strictest {
			strictest, from = s, name+"="+word
		}
	}
	if o.Environment != "" {
		look("auth.Options.Environment", o.Environment)
		return strictest, from
	}
	for _, name := range EnvironmentVariables() {
		look(name, os.Getenv(name))
	}
	return strictest, from
}

// defaultToVariable sets an empty field to the value of a variable.
func defaultToVariable(field *string, name string) {
	if *field == "" {
		*field = os.Getenv(name)
	}
}
