package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
	"github.com/distributedleasing/leasing/open"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	consullease "github.com/distributedleasing/leasing/providers/consul"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
	filelease "github.com/distributedleasing/leasing/providers/file"
	kuberneteslease "github.com/distributedleasing/leasing/providers/kubernetes"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

// Openers has the openers of all backends that processes can share.
var Openers = []abstractions.Opener{
	postgreslease.Opener(), sqlitelease.Opener(), mysqllease.Opener(), redislease.Opener(), bloblease.Opener(), cosmoslease.Opener(), s3lease.Opener(), etcdlease.Opener(), consullease.Opener(), kuberneteslease.Opener(), filelease.Opener(),
}

// provider opens the backend.
func (a *App) provider(ctx context.Context) (leasing.Provider, error) {
	where, _, err := a.Where()
	if err != nil {
		return nil, err
	}
	if open.Scheme(where) == "sqlite" {
		if err := checkAddressSpace(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	provider, err := open.URL(ctx, where, Openers...)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no answer in time: %w", leasing.ErrUnavailable, err)
	}
	return provider, err
}

// Backend is a provider and its manager.
type Backend struct {
	*leasing.Manager
	Provider leasing.Provider
}

// CloseTimeout bounds the wait for the backend at the end of a command.
const CloseTimeout = 5 * time.Second

// Open opens the backend with the given options and the global flags.
func (a *App) Open(ctx context.Context, options leasing.Options) (*Backend, error) {
	provider, err := a.provider(ctx)
	if err != nil {
		return nil, err
	}
	options.Owner, options.Tuning.RequestTimeout, options.Tuning.HealthTimeout = a.Owner, a.Timeout, a.Timeout
	manager, err := leasing.NewManager(provider, options)
	if err != nil {
		return nil, errors.Join(err, provider.Close())
	}
	return &Backend{manager, provider}, nil
}

// OpenPause is the pause between two attempts to open the backend.
const OpenPause = time.Second

// OpenWithin retries Open within a limit while the backend can't be reached: Open sends requests if it creates tables or checks
// servers. A limit of 0 means a single attempt, and a negative limit means no limit.
func (a *App) OpenWithin(ctx context.Context, limit time.Duration, options leasing.Options) (*Backend, error) {
	for begin := time.Now(); ; {
		b, err := a.Open(ctx, options)
		pause := OpenPause
		if limit >= 0 {
			pause = min(pause, limit-time.Since(begin))
		}
		if err == nil || !IsTemporary(err) || pause <= 0 {
			return b, err
		}
		a.Warn("%s", output.OneLine(err))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// IsTemporary reports whether an error may be temporary.
func IsTemporary(err error) bool {
	return errors.Is(err, leasing.ErrUnavailable) || errors.Is(err, leasing.ErrThrottled)
}

// CloseBoth closes the manager and the provider.
func (b *Backend) CloseBoth() error {
	ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
	defer cancel()
	return errors.Join(b.Close(ctx), b.Provider.Close())
}

// Using calls a function with the backend, for commands that make a few requests.
func (a *App) Using(ctx context.Context, use func(context.Context, *Backend) error) error {
	b, err := a.Open(ctx, leasing.Options{})
	if err != nil {
		return err
	}
	return errors.Join(use(ctx, b), b.CloseBoth())
}

// Records returns the records of all pages, sorted by name.
func (b *Backend) Records(ctx context.Context, prefix string, free bool) ([]output.Record, error) {
	records := []output.Record{}
	for r, err := range b.List(ctx, leasing.ListOptions{Prefix: prefix, HeldOnly: !free}) {
		if err != nil {
			return nil, err
		}
		records = append(records, output.RecordOf(r))
	}
	slices.SortFunc(records, func(x, y output.Record) int { return cmp.Compare(x.Name, y.Name) })
	return records, nil
}
