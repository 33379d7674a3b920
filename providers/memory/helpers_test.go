package memlease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

func acquireRequest(name string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "test", TTL: ttl}
}

func (p *Provider) mustAcquire(t testing.TB, req abstractions.AcquireRequest) abstractions.Grant {
	t.Helper()
	grant, err := p.Acquire(t.Context(), req)
	require.NoError(t, err)
	return grant
}

func (p *Provider) mustRelease(t testing.TB, req abstractions.AcquireRequest) {
	t.Helper()
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: req.Name, ID: req.ID}))
}

func (p *Provider) mustInspect(t testing.TB, name string) abstractions.Record {
	t.Helper()
	record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
	require.NoError(t, err)
	return record
}

// names returns the number of records.
func (p *Provider) names() int {
	n := 0
	for i := range p.memory.shards {
		s := &p.memory.shards[i]
		s.Lock()
		n += len(s.records)
		s.Unlock()
	}
	return n
}
