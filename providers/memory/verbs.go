package memlease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func (m *memory) Acquire(_ context.Context, req abstractions.AcquireRequest) (grant abstractions.Grant, err error) {
	err = m.change(req.Name, true, func(r *providerkit.Record) (c providerkit.Change) {
		if c = r.Acquire(req); c.Err == nil {
			grant = r.Grant(req.TTL)
		}
		return c
	})
	return grant, err
}

// Renew extends a claim. One that has expired is lost, also if nobody has taken the
// name since.
func (m *memory) Renew(_ context.Context, req abstractions.RenewRequest) (grant abstractions.Grant, err error) {
	err = m.change(req.Name, false, func(r *providerkit.Record) (c providerkit.Change) {
		if c = r.Renew(req); c.Err == nil {
			grant = r.Grant(req.TTL)
		}
		return c
	})
	return grant, err
}

// RenewBatch renews one after the other.
func (m *memory) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	results := make([]abstractions.RenewResult, len(reqs))
	for i := range reqs {
		results[i].Grant, results[i].Err = m.Renew(ctx, reqs[i])
	}
	return results, nil
}

func (m *memory) Release(_ context.Context, req abstractions.ReleaseRequest) error {
	return m.change(req.Name, true, func(r *providerkit.Record) providerkit.Change { return r.Release(req) })
}

func (m *memory) Break(_ context.Context, req abstractions.BreakRequest) (result abstractions.BreakResult, err error) {
	err = m.change(req.Name, false, func(r *providerkit.Record) (c providerkit.Change) {
		result, c = r.Break(req)
		return c
	})
	return result, err
}

func (m *memory) Inspect(_ context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	s := m.shardOf(req.Name)
	s.Lock()
	defer s.Unlock()
	r, _ := m.find(s, req.Name, m.now())
	return r.Show(), nil
}
