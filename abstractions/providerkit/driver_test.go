package providerkit

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// fake is a driver whose calls do what a test wants.
type fake struct {
	do     func(ctx context.Context) error // of every call; nil answers at once
	class  func(error) Meaning
	caps   abstractions.Capabilities
	closed func() error
}

// errClient stands for an error from a client library.
var errClient = errors.New("E42")

func (f *fake) call(ctx context.Context) error {
	if f.do == nil {
		return nil
	}
	return f.do(ctx)
}

func (f *fake) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	return abstractions.Grant{Name: req.Name, ID: req.ID, Token: 1, TTL: req.TTL}, f.call(ctx)
}

func (f *fake) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	return abstractions.Grant{Name: req.Name, ID: req.ID, Token: 1, TTL: req.TTL}, f.call(ctx)
}

func (f *fake) Release(ctx context.Context, _ abstractions.ReleaseRequest) error { return f.call(ctx) }

func (f *fake) Break(ctx context.Context, _ abstractions.BreakRequest) (abstractions.BreakResult, error) {
	return abstractions.BreakResult{}, f.call(ctx)
}

func (f *fake) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	return abstractions.Record{Name: req.Name}, f.call(ctx)
}

func (f *fake) Capabilities() abstractions.Capabilities {
	f.caps.Provider = "fake"
	return f.caps
}

func (f *fake) Close() error {
	if f.closed == nil {
		return nil
	}
	return f.closed()
}

func (f *fake) Classify(err error) Meaning {
	if f.class == nil {
		return Meaning{}
	}
	return f.class(err)
}

// ableFake is a driver with all abilities.
type ableFake struct {
	*fake
	renew func(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error)
}

func (f *ableFake) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	if f.renew != nil {
		return f.renew(ctx, reqs)
	}
	results := make([]abstractions.RenewResult, len(reqs))
	for i, req := range reqs {
		results[i].Grant, results[i].Err = f.Renew(ctx, req)
	}
	return results, nil
}

func (f *ableFake) List(ctx context.Context, _ abstractions.ListRequest) (abstractions.ListResult, error) {
	return abstractions.ListResult{}, f.call(ctx)
}

func (f *ableFake) Ping(ctx context.Context) error { return f.call(ctx) }

func (f *ableFake) History(ctx context.Context, _ abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	return abstractions.HistoryResult{}, f.call(ctx)
}

func (f *ableFake) Wait(ctx context.Context, _ abstractions.WaitRequest) (abstractions.Wakeups, error) {
	if err := f.call(ctx); err != nil {
		return abstractions.Wakeups{}, err
	}
	return abstractions.Wakeups{C: make(chan struct{}, 1)}, nil
}

func (f *ableFake) Waiters(ctx context.Context, _ abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
	return nil, f.call(ctx)
}

func newClaim() abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: "a", ID: abstractions.NewID(), Owner: "test", TTL: time.Minute}
}

// verbs returns all calls of a provider.
func verbs(p *Provider) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := p.Acquire(ctx, newClaim()); return err },
		"renew": func(ctx context.Context) error {
			_, err := p.Renew(ctx, abstractions.RenewRequest{Name: "a", ID: "x", TTL: time.Minute})
			return err
		},
		"renew batch": func(ctx context.Context) error {
			results, err := p.RenewBatch(ctx, []abstractions.RenewRequest{{Name: "a", ID: "x", TTL: time.Minute}})
			if err == nil {
				err = results[0].Err
			}
			return err
		},
		"release": func(ctx context.Context) error {
			return p.Release(ctx, abstractions.ReleaseRequest{Name: "a", ID: "x"})
		},
		"break": func(ctx context.Context) error {
			_, err := p.Break(ctx, abstractions.BreakRequest{Name: "a"})
			return err
		},
		"inspect": func(ctx context.Context) error {
			_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "a"})
			return err
		},
		"list": func(ctx context.Context) error { _, err := p.List(ctx, abstractions.ListRequest{}); return err },
		"ping": p.Ping,
		"history": func(ctx context.Context) error {
			_, err := p.History(ctx, abstractions.HistoryRequest{Name: "a"})
			return err
		},
		"wait": func(ctx context.Context) error {
			_, err := p.Wait(ctx, abstractions.WaitRequest{Name: "a", ID: "x"})
			return err
		},
		"waiters": func(ctx context.Context) error {
			_, err := p.Waiters(ctx, abstractions.WaitersRequest{Name: "a"})
			return err
		},
		"sweep": func(ctx context.Context) error {
			return Call(ctx, p, "sweep", "", func(ctx context.Context) error {
				if f, ok := p.driver.(*ableFake); ok {
					return f.call(ctx)
				}
				return p.driver.(*fake).call(ctx)
			})
		},
	}
}
