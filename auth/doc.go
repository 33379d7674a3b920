// Package auth gets tokens from Microsoft Entra ID. An application's configuration
// names a mode, and New makes an azcore.TokenCredential for that mode. The
// credential works for the providers blob and cosmos, for Redis through package
// redisauth, and for any client of Azure's SDK.
//
//	options := auth.Options{Mode: auth.ManagedIdentity}
//	credential, err := auth.New(options)
//
// or, as part of a configuration in JSON,
//
//	{"auth": {"mode": "WorkloadIdentity", "workload_identity": {"client_id": "..."}}}
//
// Package azidentity gets the tokens. This package chooses the source, validates
// its settings and explains the choice. Its errors match those of package
// leasing.
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
// A GitHub Actions job needs the permission "id-token: write". Development is
// refused if the environment says production. ManagedIdentity does not check
// whether there is a managed identity: outside of Azure a request for a token
// hangs until its context ends.
//
// Auto is a chain of links, tried in this order. The first link that returns a token is
// used from then on:
//
//  1. A service principal whose secret or certificate is in the environment.
//  2. A workload identity, if all its variables are set.
//  3. A managed identity. If only the metadata service could provide it, and that
//     service does not answer within 1 s, the link is skipped.
//  4. Developers' tools, unless the environment says production or staging.
//
// Explain reports which links Auto, or any mode, finds in the environment. In
// production, name the mode: Auto may find a different identity from the one you meant.
//
// # Variables
//
// An empty field is read from its variable, if it has one:
//
//	variable                             field
//	LEASING_AUTH_MODE                    Mode, for FromEnvironment only; Auto if it is not set
//	LEASING_AUTH_CLOUD                   Cloud, for FromEnvironment only
//	AZURE_AUTHORITY_HOST                 AuthorityHost, unless Cloud is set
//	AZURE_TENANT_ID                      TenantID, except for Development
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
// "staging" or "stage", in upper or lower case. Unlike in .NET, a program without
// these variables is not in production. Options.Environment overrides the
// variables.
//
// # Renewal
//
// Tokens are renewed automatically. A token is valid for an hour or a day. azidentity
// caches it until 5 minutes before its end. From then on Azure's clients request the
// next token, at most every 30 s, and use the old token until the new token arrives. So
// leases survive an outage of Entra ID of less than 5 minutes, and a longer one if the token is
// fresh. A token file is read again when it changes.
//
// # Where secrets go
//
// No redirect is followed, even if Options.Client.Transport is an *http.Client. A secret or an
// assertion goes only to hosts of the authority, regardless of its metadata. Requests to the
// metadata service use no proxy.
//
// ForService makes a credential for the client of one service. The credential's errors say nothing
// about that service. If the metadata service does not answer within 1 s, the error matches
// leasing.ErrUnavailable: the service may be slow.
//
// # Certificates
//
// A certificate file is read again when it changes. If the new contents are unusable,
// the old ones stay in use. A file is PKCS#12, with or without a password, as written
// by OpenSSL 1 and 3, Windows and Key Vault, or PEM with an unencrypted key. The key
// must be RSA.
//
// # What is not supported
//
// Users' names and passwords, device codes and browsers are not supported, since no
// unattended program can use them; nor is the sign-in of Visual Studio and VS Code,
// which azidentity for Go does not support; nor is a cache on disk.
package auth
