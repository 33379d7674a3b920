// Package auth gets tokens from Microsoft Entra ID. An application's configuration
// names a mode, and New makes an azcore.TokenCredential of it: for the providers
// blob and cosmos, for Redis through package redisauth, and for any client of
// Azure's SDK.
//
//	options := auth.Options{Mode: auth.ManagedIdentity}
//	credential, err := auth.New(options)
//
// or, as part of a configuration in JSON,
//
//	{"auth": {"Mode": "WorkloadIdentity", "WorkloadIdentity": {"ClientId": "..."}}}
//
// Package azidentity does the work. This package chooses, validates and explains,
// and its errors match those of package leasing.
//
// # Modes
//
//	mode                 for                                 reads
//	Auto                 anything: see below                 the environment
//	ManagedIdentity      Azure's machines and services       ManagedIdentity.ClientID, or none: system-assigned
//	WorkloadIdentity     Kubernetes                          TenantID, ClientID, TokenFilePath
//	WorkloadIdentity     a GitHub Actions job                TenantID, ClientID, Audience, the job's two variables
//	ServicePrincipal     anything that can keep a secret     TenantID, ClientID, ClientSecret
//	ServicePrincipal     the same with a certificate         TenantID, ClientID, CertificatePath, CertificatePassword
//	FederatedCredential  another issuer's tokens             TenantID, ClientID, TokenFilePath or Token
//	Development          a developer's machine               Development.TenantID; az, azd, Azure PowerShell on PATH
//
// A job needs the permission "id-token: write". Development is refused where the
// environment says production. Mode ManagedIdentity does not look whether there is
// one: outside of Azure a request for a token ends with its context.
//
// Auto is a chain. The first of its links that has a token is asked from then on:
//
//  1. A service principal whose secret or certificate is in the environment.
//  2. A workload identity, if its variables are set, all of them.
//  3. A managed identity. Where only the metadata service could have it, and
//     that does not answer within a second, there is none.
//  4. Developers' tools, unless the environment says production or staging.
//
// Explain says which links Auto, or any mode, finds in the environment. In
// production name the mode: a chain may find another identity than the one you meant.
//
// # Variables
//
// An empty field is read from its variable, if it has one:
//
//	variable                             field
//	LEASING_AUTH_MODE                    Mode, for FromEnvironment only; Auto if it is not set
//	LEASING_AUTH_CLOUD                   Cloud, for FromEnvironment only
//	AZURE_AUTHORITY_HOST                 AuthorityHost, unless Cloud is set
//	AZURE_TENANT_ID                      TenantID, but for Development
//	AZURE_CLIENT_ID                      ClientID; for ManagedIdentity in Auto and FromEnvironment only
//	AZURE_CLIENT_SECRET                  ClientSecret
//	AZURE_CLIENT_CERTIFICATE_PATH        CertificatePath, if there is no secret either
//	AZURE_CLIENT_CERTIFICATE_PASSWORD    CertificatePassword, together with the path
//	AZURE_CLIENT_SEND_CERTIFICATE_CHAIN  SendCertificateChain, together with the path
//	AZURE_FEDERATED_TOKEN_FILE           TokenFilePath
//	ACTIONS_ID_TOKEN_REQUEST_URL, _TOKEN a GitHub Actions job's tokens
//
// ENVIRONMENT, APP_ENV, GO_ENV, DOTNET_ENVIRONMENT, ASPNETCORE_ENVIRONMENT and
// AZURE_FUNCTIONS_ENVIRONMENT say where a program runs: "production" or "prod",
// "staging" or "stage", in upper or lower case. Unlike in .NET, a program with none
// of them is not in production. Options.Environment overrides them.
//
// # Renewal
//
// Applications do nothing for it. Tokens are good for an hour or a day. azidentity
// keeps a token until 5 minutes before its end. From then on Azure's clients ask for
// the next one, at most every 30 seconds, and use the old one until they have it. So
// a lease survives an Entra ID that is down for less than 5 minutes, and longer if
// its token is fresh. A token in a file is read anew each time.
//
// # Certificates
//
// Certificates are PKCS#12, with a password or without one, as OpenSSL 1 and 3,
// Windows and Key Vault write it, or PEM with a key that is not encrypted. The key
// has to be RSA. New reads the file once.
//
// # What is not here
//
// Names and passwords of users, device codes and browsers, which no unattended
// program can use; the sign-in of Visual Studio and VS Code, which azidentity for
// Go does not support; a cache on disk.
package auth
