package filelease

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/disk"
)

var capabilities = abstractions.Capabilities{
	Provider:       "file",
	MinTTL:         100 * time.Millisecond,
	MaxTTL:         100 * 365 * 24 * time.Hour, // deadlines stay within the range of Go's times
	Granularity:    time.Microsecond,
	Infinite:       true,
	Clock:          "the host's clock",
	Lateness:       abstractions.Lateness{Fixed: time.Millisecond},
	RemainingKnown: true,
}

type shell = providerkit.Provider // so that the embedded field is not exported

// Provider keeps leases in a folder. It is safe for concurrent use.
type Provider struct {
	*shell
	records *cas.Records
}

// Open opens a folder. If ctx has ended, it does nothing.
func Open(ctx context.Context, options Options) (*Provider, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	f := &folder{path: options.Folder, oneHost: options.OneHost}
	naming := cas.Naming{Max: maxKey}
	records := &cas.Records{Store: f, Key: naming.Encode, FloorKey: naming.Floor(), Retention: options.Retention}
	p := &Provider{providerkit.New(&driver{records, f}, providerkit.Config{Timeout: options.Timeout, Detach: true}), records}
	err = providerkit.Call(ctx, p.shell, "open", "", func(context.Context) error { return f.open(options.Create) })
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Sweep forgets the names that have been free and unused for Options.Retention, and
// returns their number.
func (p *Provider) Sweep(ctx context.Context) (forgotten int, err error) {
	return providerkit.Sweep(ctx, p.shell, p.records.SweepPage)
}

// driver adds checks of the folder to cas.Records.
type driver struct {
	*cas.Records
	folder *folder
}

// Renew reports a loss if the folder is gone: another process may make a new folder
// without the record.
func (d *driver) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	grant, err := d.Records.Renew(ctx, req)
	if gone := d.folder.check(); err != nil && errors.Is(gone, fs.ErrNotExist) {
		err = &abstractions.LostError{Reason: abstractions.LostGone, Err: gone}
	}
	return grant, err
}

func (d *driver) Ping(context.Context) error { return d.folder.check() }

func (d *driver) Capabilities() abstractions.Capabilities { return capabilities }

func (d *driver) Close() error { return nil }

// Classify interprets errors from the file system. Only a rename applies a request,
// so an error before the rename means that the request was not applied.
func (d *driver) Classify(err error) providerkit.Meaning {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return providerkit.Meaning{Class: providerkit.Denied, Advice: "the process needs the right to write in " + d.folder.path}
	case errors.Is(err, fs.ErrNotExist):
		return providerkit.Meaning{Class: providerkit.NotSetUp, Advice: "create the folder, or set Options.Create"}
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, disk.ErrNetwork), errors.Is(err, errNoLocks):
		return providerkit.Meaning{Class: providerkit.NotSetUp}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return providerkit.Meaning{Class: providerkit.Refused}
	}
	return providerkit.Meaning{}
}

var errNoLocks = errors.New("this system has no flock(2)")
