package engine

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/dispatch"
	"github.com/distributedleasing/leasing/internal/instrument"
	"github.com/distributedleasing/leasing/internal/lifecycle"
)

// renew sends the renewals of a batch. divisor divides the bound of the request: see dispatch.Jobs.
func (m *Manager) renew(batch []*lease, divisor time.Duration) {
	if len(batch) > 1 {
		m.renewBatch(batch, divisor)
	} else {
		_ = batch[0].renewAlone(m.running, divisor) // the lease has noted the error
	}
}

// renewBatch renews several leases in one request. The outcome of an item without an answer is
// unknown.
func (m *Manager) renewBatch(leases []*lease, divisor time.Duration) {
	sent := m.clock.Now()
	bound := m.config.RequestTimeout
	live := leases[:0]
	reqs := make([]abstractions.RenewRequest, 0, len(leases))
	for _, l := range leases {
		req, b, ok := l.beginRenewal(sent)
		if !ok {
			continue
		}
		live, reqs, bound = append(live, l), append(reqs, req), min(bound, b)
	}
	if len(live) == 0 {
		return
	}
	b := dispatch.WithBound(m.running, bound/divisor)
	defer b.Cancel()
	traces := make([]*instrument.Trace, len(live))
	for i, l := range live {
		traces[i] = l.trace
	}
	ctx, span := m.telemetry.StartBatch(b, traces)
	defer span.End()
	results, err := dispatch.Send(ctx, m.requests, &m.overdueBatches, m.batch, abstractions.BatchRenewer.RenewBatch, reqs, lateBatch(live))
	if errors.Is(err, dispatch.ErrOverdue) {
		for _, l := range live {
			l.inBatches.Add(1)
		}
	}
	switch {
	case err == nil:
		err = errNoAnswer
	case errors.Is(err, abstractions.ErrLost): // the error does not say which leases are lost
		err = fmt.Errorf("%w: %v", errNoAnswer, err)
	}
	now, measured := m.clock.Now(), map[*instrument.Scope]instrument.Renewed{}
	for i, l := range live {
		result := abstractions.RenewResult{Err: err}
		if i < len(results) && (results[i].Err != nil || results[i].Grant.ID != "") {
			result = results[i]
		}
		if result.Err != nil && dispatch.CutOff(ctx, result.Err) {
			result.Err = lifecycle.NoAnswer(result.Err)
		}
		_ = l.finishRenewal(sent, now, result.Grant, result.Err, measured) // the lease has noted the error
	}
	for s, r := range measured {
		m.telemetry.Renewals(s, now.Mono-sent.Mono, r)
	}
}

// lateBatch is a batch of leases that was given up as failed.
type lateBatch []*lease

func (b lateBatch) RepliedLate(results []abstractions.RenewResult, err error) {
	for i, l := range b {
		l.inBatches.Add(-1)
		if i < len(results) {
			l.RepliedLate(results[i].Grant, results[i].Err)
		} else {
			l.RepliedLate(abstractions.Grant{}, cmp.Or(err, errNoAnswer))
		}
	}
}
