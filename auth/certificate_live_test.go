package auth_test

import (
	"os"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
)

// T122: the certificate of a service principal must be read again when its file changes.
func TestTrap_T122_ACertificateIsReadAgain(t *testing.T) {
	clearEnvironment(t)
	server := authtest.Start(t)
	options := server.Certificate()
	path, password := options.ServicePrincipal.CertificatePath, options.ServicePrincipal.CertificatePassword
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	before := other(t)
	old, err := pkcs12.Modern2023.Encode(before.key, before.certificate, nil, password)
	require.NoError(t, err)
	write := func(data []byte) { require.NoError(t, os.WriteFile(path, data, 0o600)) }

	write(old)
	credential, err := auth.New(options)
	require.NoError(t, err)
	get := func(scope string) error {
		_, err := credential.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{scope}})
		return err
	}
	require.Error(t, get("https://a.test/.default"), "the service does not know the certificate")
	write(good[:len(good)/2])
	failed := (*auth.Error)(nil)
	require.ErrorAs(t, get("https://a.test/.default"), &failed)
	require.ErrorContains(t, failed.Err, "not in use")
	write(good)
	require.NoError(t, get("https://a.test/.default"))
	for i, scope := range []string{"https://b.test/.default", "https://c.test/.default"} {
		if write(nil); i == 1 {
			require.NoError(t, os.Remove(path))
		}
		require.NoError(t, get(scope), "the last good certificate is kept")
	}
}
