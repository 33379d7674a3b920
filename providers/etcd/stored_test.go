package etcdlease

import (
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distributedleasing/leasing/abstractions/recordstest"
)

// Every release must read the keys that release 0.1.0 stored: a record, and a claim with an etcd lease.
func TestStoredKeys(t *testing.T) {
	p, s := openFresh(t)
	recordstest.UsesStored(t, p, func() {
		lease, err := s.client.Grant(t.Context(), 30)
		require.NoError(t, err)
		_, err = s.client.Txn(t.Context()).Then(
			clientv3.OpPut(s.prefix+"n/jobs/daily", recordstest.StoredRecord),
			clientv3.OpPut(s.prefix+"c/jobs/daily", "0123456789abcdef 1789000000123456 30", clientv3.WithLease(lease.ID)),
		).Commit()
		require.NoError(t, err)
	})
}
