package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/semaphore"
	"github.com/distributedleasing/leasing/samples/internal/app"
)

var (
	permits  = flag.Int("permits", 3, "throttle: calls of the gateway at a time, of all processes; 0 for no limit")
	payments = flag.Int("payments", 32, "throttle: payments of this process")
)

// throttle charges payments, and keeps the calls of the payment gateway under its limit across a fleet. The TTL is far longer
// than a call, so that no call outlives the permit of a process that died in the middle.
//
// A semaphore can't stop the call of a process that was paused and resumes after its permit has gone to another process. A
// gateway that checks fencing tokens refuses that call: see package semaphore.
func throttle(ctx context.Context, a *app.App) error {
	throttled, err := semaphore.New(a.Manager, semaphore.Options{Name: a.Name, Permits: max(*permits, 1)})
	if err != nil {
		return err
	}
	team, ctx := errgroup.WithContext(ctx)
	team.SetLimit(4)
	for n := range *payments {
		url := fmt.Sprintf("%s/%s/%d", flag.Arg(1), a.Owner, n)
		team.Go(func() error {
			if *permits == 0 {
				return charge(ctx, url)
			}
			err := leasing.ErrLost
			// The loss of a permit cancels its call. The gateway may have charged nevertheless, and must recognize a repeated
			// payment.
			for errors.Is(err, leasing.ErrLost) {
				err = throttled.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error { return charge(ctx, url) })
			}
			return err
		})
	}
	return team.Wait()
}

// charge calls the gateway.
func charge(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the gateway answers %s", response.Status)
	}
	return nil
}
