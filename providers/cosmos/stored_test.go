package cosmoslease

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/recordstest"
)

// Every release must read the document that release 0.1.0 stored.
func TestStoredDocument(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		recordstest.UsesStored(t, b.Provider, func() {
			c, err := b.driver.store.connection.container(t.Context())
			require.NoError(t, err)
			_, err = c.CreateItem(t.Context(), azcosmos.NewPartitionKeyString("jobs~2Fdaily"), []byte(`{"id":"jobs~2Fdaily","ttl":-1,"lease":`+recordstest.StoredRecord+`}`), nil)
			require.NoError(t, err)
		})
	})
}
