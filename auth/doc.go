// Package auth gets tokens of Microsoft Entra ID: from a mode that an
// application's configuration names to an azcore.TokenCredential, for providers
// blob and cosmos, for Redis by way of package redisauth, and for any client of
// Azure's SDK.
//
//	options := auth.Options{Mode: auth.ManagedIdentity}
//	credential, err := auth.New(options)
//
// or, as part of a configuration in JSON,
//
//	{"auth": {"Mode": "WorkloadIdentity", "WorkloadIdentity": {"ClientId": "..."}}}
//
// The work is azidentity's. This package chooses, validates, explains, and says
// in package leasing's words what went wrong.
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
// environment says production. In mode ManagedIdentity nothing is probed: outside
// of Azure a request for a token ends with its context.
//
// Auto is a chain. The first of its links that has a token is asked from then on:
//
//  1. A service principal whose secret or certificate is in the environment.
//  2. A workload identity, if its variables are set, all of them.
//  3. A managed identity. Where only the metadata service could have it, and
//     that does not answer within a second, there is none.
//  4. Developers' tools, unless the environment says production or staging.
//
// Explain says what Auto, or any mode, makes of the environment. In production
// name the mode: a chain that finds somebody else is a surprise.
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
// Where a program runs is said by ENVIRONMENT, APP_ENV, GO_ENV,
// DOTNET_ENVIRONMENT, ASPNETCORE_ENVIRONMENT and AZURE_FUNCTIONS_ENVIRONMENT:
// "production" or "prod", "staging" or "stage", in upper or lower case. Unlike in
// .NET, none of them set does not mean production. Options.Environment overrides
// them.
//
// # Renewal
//
// Nothing has to be done for it. Tokens are good for an hour or a day. azidentity
// keeps one until 5 minutes before its end; Azure's clients ask for the next from
// then on, at most every 30 seconds, and use the old one until they have it. So a
// lease survives an Entra ID that is away for less than 5 minutes, and longer if
// its token is fresh. A token in a file is read anew each time.
//
// # Certificates
//
// PKCS#12, with a password or without one, as OpenSSL 1 and 3, Windows and Key
// Vault write it. PEM with a key that is not encrypted. The key has to be RSA.
// Both are read once, by New.
//
// # What is not here
//
// Names and passwords of users, device codes and browsers, which no unattended
// program can use; the sign-in of Visual Studio and VS Code, which azidentity for
// Go can't; a cache on disk.
package auth
