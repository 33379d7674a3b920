package bloblease

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T46: an empty blob that stands for a folder is somebody's folder.
func TestTrap_T46_BlobFolderIsNotLeased(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, mark := range map[string]map[string]string{
		"jobs": {"hdi_isfolder": "true"}, "Jobs": {"Hdi_isfolder": "True"},
	} {
		b.upload(name, "", mark)
		before := b.properties(name)
		for _, what := range []string{"acquire", "renew", "release", "break", "inspect"} {
			err := everyCall(b.Provider, abstractions.Grant{Name: name, ID: "a", Token: 1, TTL: maxTTL})[what](t.Context())
			require.ErrorIs(t, err, abstractions.ErrNotSetUp, what)
			require.ErrorContains(t, err, "folder", what)
		}
		after := b.properties(name)
		require.Equal(t, before.ETag, after.ETag)
		require.Equal(t, lease.StateTypeAvailable, *after.LeaseState)
	}
	b.upload("no folder", "", map[string]string{"hdi_isfolder": "false"})
	b.take("no folder", "a")
}
