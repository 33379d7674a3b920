// Package authtest is a fake Microsoft Entra ID for tests: a server on loopback, or
// without a socket, that issues tokens for every mode of package auth. It sends nothing
// outside this machine.
//
//	func TestEachModeLeases(t *testing.T) {
//		authtest.Each(t, func(t *testing.T, server *authtest.Server, options auth.Options) {
//			server.SetLifetime(3 * time.Second)
//			credential, err := auth.New(options)
//			...
//			require.GreaterOrEqual(t, len(server.Issued()), 2) // it outlived its first token
//		})
//	}
//
// # What it has
//
//   - For client secrets, certificates and the tokens of other issuers: the
//     OpenID configuration of a tenant, and its token endpoint, which checks
//     secrets, signatures and assertions, over TLS.
//   - For managed identities: the endpoint of an app service, which the variables
//     IDENTITY_ENDPOINT and IDENTITY_HEADER describe.
//   - For GitHub Actions: the endpoint for a job's tokens, which the variables
//     ACTIONS_ID_TOKEN_REQUEST_URL and ACTIONS_ID_TOKEN_REQUEST_TOKEN describe.
//   - For developers' tools: a program az at the head of PATH (a script for sh).
//
// Methods that set environment variables do so for the test (testing.TB.Setenv), which then can't
// be parallel.
//
// # Its tokens
//
// Tokens are JWTs without a signature, for the audience that was requested
// ("https://storage.azure.com" for the scope "https://storage.azure.com/.default"),
// issued by "https://sts.windows.net/" + TenantID + "/". Azurite accepts them with
// --oauth basic; a fake service may call Server.Check.
//
// # When a token is renewed
//
// The following was measured with azcore 1.24 and azidentity 1.15, also in virtual time, with
// StartInMemory in a synctest bubble:
//
//   - azidentity caches a token until 5 minutes before it expires: per credential, and
//     for a managed identity per process, client ID and resource. So the user-assigned
//     identity of each Server has a client ID of its own. azidentity runs az for each token.
//   - azcore's clients also cache a token. From 5 minutes before the token's end they request a new
//     one from the credential, at most once in 30 seconds, and keep using the old token if the
//     request fails. After the token's expiry they call the credential for each request.
//   - So with a lifetime of 3 seconds a client gets a new token every 3 seconds. A service may
//     receive a token just as it expires, and answer 401; the next request has a new token.
package authtest
