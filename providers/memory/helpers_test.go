package memlease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	leasing "github.com/distributedleasing/leasing/abstractions"
)

func request(name string, ttl time.Duration) leasing.AcquireRequest {
	return leasing.AcquireRequest{Name: name, ID: leasing.NewID(), Owner: "test", TTL: ttl}
}

func (p *Provider) mustAcquire(t testing.TB, req leasing.AcquireRequest) leasing.Grant {
	t.Helper()
	grant, err := p.Acquire(t.Context(), req)
	require.NoError(t, err)
	return grant
}

func (p *Provider) mustRelease(t testing.TB, req leasing.AcquireRequest) {
	t.Helper()
	require.NoError(t, p.Release(t.Context(), leasing.ReleaseRequest{Name: req.Name, ID: req.ID}))
}

func (p *Provider) mustInspect(t testing.TB, name string) leasing.Record {
	t.Helper()
	record, err := p.Inspect(t.Context(), leasing.InspectRequest{Name: name})
	require.NoError(t, err)
	return record
}

// names is how many records there are.
func (p *Provider) names() int {
	n := 0
	for i := range p.shards {
		s := &p.shards[i]
		s.Lock()
		n += len(s.records)
		s.Unlock()
	}
	return n
}
