package redislease

import (
	"context"
	"errors"
	"testing"
	"time"

	leasing "github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/require"
)

// exercise does everything that a provider can, and returns what went wrong. The
// steps go on after an error, as a program would.
func exercise(t *testing.T, p *Provider) error {
	t.Helper()
	var errs []error
	check := func(err error) bool {
		errs = append(errs, err)
		return err == nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request := func(name string, ttl time.Duration) leasing.AcquireRequest {
		return leasing.AcquireRequest{Name: name, ID: leasing.NewID(), Owner: "o", TTL: ttl, Metadata: map[string]string{"k": "v"}}
	}
	check(p.Ping(ctx))
	first := request("name", time.Minute)
	grant, err := p.Acquire(ctx, first)
	check(err)
	first.TTL = 2 * time.Minute
	_, err = p.Acquire(ctx, first) // a repetition prolongs it
	check(err)
	for _, ttl := range []time.Duration{time.Minute, leasing.Infinite} {
		_, err = p.Renew(ctx, leasing.RenewRequest{Name: "name", ID: first.ID, Token: grant.Token, TTL: ttl})
		check(err)
	}
	waits, leave := context.WithCancel(ctx)
	defer leave()
	second := request("name", time.Minute)
	subscribing, stop := context.WithTimeout(waits, 2*time.Second)
	defer stop()
	_, err = p.Wait(subscribing, leasing.WaitRequest{Name: "name", ID: second.ID})
	check(err)
	_, err = p.Acquire(ctx, second)
	if !errors.Is(err, leasing.ErrHeld) {
		check(err)
	}
	_, err = p.Inspect(ctx, leasing.InspectRequest{Name: "name"})
	check(err)
	_, err = p.Break(ctx, leasing.BreakRequest{Name: "name", Grace: time.Minute})
	check(err)
	check(p.Release(ctx, leasing.ReleaseRequest{Name: "name", ID: first.ID}))
	_, err = p.Acquire(ctx, second)
	check(err)
	_, err = p.Break(ctx, leasing.BreakRequest{Name: "name", Immediate: true})
	check(err)
	check(p.Release(ctx, leasing.ReleaseRequest{Name: "name", ID: second.ID}))
	_, err = p.List(ctx, leasing.ListRequest{})
	check(err)
	return errors.Join(errs...)
}

func aclUser(rights string) redistest.Options {
	return redistest.Options{Users: []string{"app on >secret " + rights, "default off"}}
}

func asUser(s *redistest.Server) string { return "redis://app:secret@" + s.Addr() }

func TestRightsSuffice(t *testing.T) {
	p := openTest(t, Options{URL: asUser(redistest.Start(t, aclUser(Rights)))})
	require.NoError(t, exercise(t, p))
}
