package lockers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/distributedleasing/leasing"
	redislease "github.com/distributedleasing/leasing/providers/redis"
)

// meter collects the metrics of all managers of the process, as in a program that
// monitors its leases. No goroutine reads the metrics during a measurement.
var meter = sync.OnceValue(func() *sdkmetric.MeterProvider {
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
})

func openLeasing(open func(context.Context, Config) (leasing.Provider, func() error, error)) func(context.Context, Config) (Locker, error) {
	return func(ctx context.Context, config Config) (Locker, error) {
		provider, closeProvider, err := open(ctx, config)
		if err != nil {
			return nil, err
		}
		manager, err := leasing.NewManager(provider, leasing.Options{TTL: config.TTL, MeterProvider: meter()})
		if err != nil {
			return nil, errors.Join(err, closeProvider())
		}
		return &leasingLocker{manager: manager, closeProvider: closeProvider}, nil
	}
}

// openProvider opens the provider over the benchmark's own clients, so that their
// commands are counted. The clients are set up as redislease.Options.Client requires.
func openProvider(ctx context.Context, config Config) (leasing.Provider, func() error, error) {
	clients, err := clients(config.URL, config.Counter, func(o *redis.Options) {
		o.DialerRetries, o.MaxRetries = 1, -1
	})
	if err != nil {
		return nil, nil, err
	}
	options := redislease.Options{Client: clients[0], HeedsContext: true} // as with a URL
	if len(clients) > 1 {
		options.Client = nil
		for _, client := range clients {
			options.Clients = append(options.Clients, client)
		}
	}
	provider, err := redislease.Open(ctx, options)
	if err == nil && len(clients) > 1 {
		err = provider.Bootstrap(ctx) // the servers are the benchmark's own
	}
	if err != nil {
		return nil, nil, errors.Join(err, clients.Close())
	}
	return provider, func() error { return errors.Join(provider.Close(), clients.Close()) }, nil
}

type leasingLocker struct {
	manager       *leasing.Manager
	closeProvider func() error
}

func (l *leasingLocker) Try(ctx context.Context, name string) (Lock, error) {
	return newLeasingLock(l.manager.TryAcquire(ctx, name))
}

func (l *leasingLocker) Acquire(ctx context.Context, name string) (Lock, error) {
	return newLeasingLock(l.manager.Acquire(ctx, name))
}

func newLeasingLock(lease *leasing.Lease, err error) (Lock, error) {
	if err == nil {
		return leasingLock{lease}, nil
	}
	// If an Acquire times out, its error also matches ErrHeld.
	if errors.Is(err, leasing.ErrHeld) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return nil, ErrTaken
	}
	return nil, err
}

func (l *leasingLocker) FreeIn(ctx context.Context, name string) (time.Duration, error) {
	record, err := l.manager.Inspect(ctx, name)
	if err != nil {
		return 0, err
	}
	left, ok := record.Remaining()
	if !ok {
		return 0, fmt.Errorf("it is not known how long %q is held", name)
	}
	return left, nil
}

func (l *leasingLocker) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(l.manager.Close(ctx), l.closeProvider())
}

type leasingLock struct{ *leasing.Lease }

// Keep does nothing: the manager renews.
func (leasingLock) Keep() {}

func (l leasingLock) Kept() bool { return l.Err() == nil }
