package bloblease

import (
	"net/url"
	"strings"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T49: the connection string itself where the name of its variable belongs. It is not
// shown; a name that is only mistyped is.
func TestTrap_T49_BlobConnectionStringInPlaceOfItsVariable(t *testing.T) {
	for _, secret := range []string{
		"DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + canaryKey + ";EndpointSuffix=core.windows.net",
		"AccountKey=" + canaryKey, strings.Repeat(canary, 6), canaryKey + "==", canaryKey + "/" + canaryKey,
		"BlobEndpoint=https://a.blob.core.windows.net;SharedAccessSignature=sv=1&sig=" + canaryKey,
	} {
		_, err := OpenURL(t.Context(), "azblob:///leases?connection_string_env="+url.QueryEscape(secret))
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		require.NotContains(t, err.Error(), canaryKey[:8])
		require.NotContains(t, err.Error(), canary)
		require.ErrorContains(t, err, "connection_string_env")
	}
	_, err := OpenURL(t.Context(), "azblob:///leases?connection_string_env=AZURE_STORAGE_CONNECTION_STRONG")
	require.ErrorContains(t, err, "AZURE_STORAGE_CONNECTION_STRONG")
}
