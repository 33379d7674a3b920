package kuberneteslease

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/stretchr/testify/require"
)

// Every release must read the object that release 0.1.0 stored for a held lease.
func TestLeaseObjectOfTheFirstRelease(t *testing.T) {
	const (
		record = `{"v":1,"name":"jobs","token":1789000000123456,"id":"0123456789abcdef","write":"1f2e3d4c5b6a7988","lasts_us":30000000}`
		stored = `{
  "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
  "metadata": {"name": "jobs", "annotations": {"distributedleasing.github.io/record": "{\"record\":{\"v\":1,\"name\":\"jobs\",\"token\":1789000000123456,` +
			`\"id\":\"0123456789abcdef\",\"write\":\"1f2e3d4c5b6a7988\",\"lasts_us\":30000000},\"id\":\"0123456789abcdef\",\"spec\":{` +
			`\"holderIdentity\":\"host-1_0123456789abcdef\",\"leaseDurationSeconds\":30,\"acquireTime\":\"2026-09-10T00:26:40.123456Z\",` +
			`\"renewTime\":\"2026-09-10T00:26:40.123456Z\",\"leaseTransitions\":1}}"}},
  "spec": {"holderIdentity": "host-1_0123456789abcdef", "leaseDurationSeconds": 30, "acquireTime": "2026-09-10T00:26:40.123456Z",
    "renewTime": "2026-09-10T00:26:40.123456Z", "leaseTransitions": 1}}`
	)
	r := providerkit.Record{Name: "jobs", ID: "0123456789abcdef", Owner: "host-1"}
	r.Now = time.UnixMicro(1789000000123456).UTC()
	written, err := (&lease{Metadata: metadata{Name: "jobs"}}).with(&r, []byte(record))
	require.NoError(t, err)
	text, err := json.Marshal(written)
	require.NoError(t, err)
	require.JSONEq(t, stored, string(text))
	var read lease
	require.NoError(t, json.Unmarshal([]byte(stored), &read))
	item, err := read.item(r.Now)
	require.NoError(t, err)
	require.JSONEq(t, record, string(item.Data))
}
