package consullease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/recordstest"
)

// Every release must read the entry that release 0.1.0 stored.
func TestStoredEntry(t *testing.T) {
	p := open(t, Options{URL: serverURL(t) + "/" + abstractions.NewID()})
	recordstest.UsesStored(t, p, func() {
		_, err := p.driver.store.Put(t.Context(), cas.Item{Key: p.driver.store.naming.Prefix + "jobs~2Fdaily"}, nil, []byte(recordstest.StoredRecord))
		require.NoError(t, err)
	})
}
