package consullease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providertest"
)

// The entry of release 0.1.0. Later releases must read the entry.
func TestStoredEntry(t *testing.T) {
	prefix := abstractions.NewID()
	p := open(t, Options{URL: named(t), Prefix: prefix})
	providertest.UsesStored(t, p, func() {
		_, err := p.driver.store.Put(t.Context(), providerkit.Item{Key: prefix + "/jobs~2Fdaily"}, nil, []byte(providertest.StoredRecord))
		require.NoError(t, err)
	})
}
