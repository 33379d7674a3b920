package chaos

import (
	"context"
	"maps"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
)

// Inspect is the wrapped provider's, with the plan's faults.
func (p *Provider) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	quiet, err := p.state()
	switch {
	case err != nil:
		return abstractions.Record{}, err
	case quiet:
		return p.inner.Inspect(ctx, req)
	}
	return p.inspect(ctx, req)
}

func (p *Provider) inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	if req.Validate(p.caps) != nil {
		return p.inner.Inspect(ctx, req)
	}
	o := operation{op: OpInspect, name: req.Name, read: req}
	return read(ctx, p, o, ownRecord, func(ctx context.Context) (abstractions.Record, error) { return p.inner.Inspect(ctx, req) })
}

// List is the wrapped provider's, with the plan's faults.
func (p *Provider) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	quiet, err := p.state()
	switch {
	case err != nil:
		return abstractions.ListResult{}, err
	case p.lister == nil:
		return abstractions.ListResult{}, p.wrap(operation{op: OpList}, abstractions.ErrUnsupported)
	case quiet:
		return p.lister.List(ctx, req)
	}
	return p.list(ctx, req)
}

func (p *Provider) list(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	o := operation{op: OpList, read: req}
	return read(ctx, p, o, ownList, func(ctx context.Context) (abstractions.ListResult, error) { return p.lister.List(ctx, req) })
}

// History is the wrapped provider's, with the plan's faults.
func (p *Provider) History(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	quiet, err := p.state()
	switch {
	case err != nil:
		return abstractions.HistoryResult{}, err
	case p.historian == nil:
		return abstractions.HistoryResult{}, p.wrap(operation{op: OpHistory, name: req.Name}, abstractions.ErrUnsupported)
	case quiet:
		return p.historian.History(ctx, req)
	}
	return p.history(ctx, req)
}

func (p *Provider) history(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	if (abstractions.InspectRequest{Name: req.Name}).Validate(p.caps) != nil {
		return p.historian.History(ctx, req)
	}
	o := operation{op: OpHistory, name: req.Name, read: req}
	return read(ctx, p, o, ownHistory, func(ctx context.Context) (abstractions.HistoryResult, error) { return p.historian.History(ctx, req) })
}

// Ping is the wrapped provider's, with the plan's faults.
func (p *Provider) Ping(ctx context.Context) error {
	quiet, err := p.state()
	switch {
	case err != nil:
		return err
	case p.pinger == nil:
		return p.wrap(operation{op: OpPing}, abstractions.ErrUnsupported)
	case quiet:
		return p.pinger.Ping(ctx)
	}
	return p.ping(ctx)
}

func (p *Provider) ping(ctx context.Context) error {
	_, err := through(ctx, p, operation{op: OpPing}, func(ctx context.Context) (nothing, error) { return nothing{}, p.pinger.Ping(ctx) })
	return err
}

// read makes an operation whose answer may be served again, later. The copies
// are for callers that change what they get.
func read[R any](ctx context.Context, p *Provider, o operation, own func(R) R, ask exchange[R]) (R, error) {
	o.owner = p.options.Owner
	answer, err := through(ctx, p, o, func(ctx context.Context) (R, error) {
		answer, err := ask(ctx)
		if err == nil {
			p.remember(o, own(answer))
		}
		return answer, err
	})
	return own(answer), err
}

func ownRecord(r abstractions.Record) abstractions.Record {
	r.Metadata = maps.Clone(r.Metadata)
	return r
}

func ownList(r abstractions.ListResult) abstractions.ListResult {
	r.Records = slices.Clone(r.Records)
	for i := range r.Records {
		r.Records[i] = ownRecord(r.Records[i])
	}
	return r
}

func ownHistory(r abstractions.HistoryResult) abstractions.HistoryResult {
	r.Entries = slices.Clone(r.Entries)
	return r
}
