package hold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/supervise"
)

// runner runs commands under leases of one manager.
type runner struct {
	*cli.Backend
	supervise.Command
	app      *cli.App
	atLeast  time.Duration
	fraction float64 // the part of the TTL after which to renew; 0 for the default
	renewed  chan struct{}
}

// newRunner checks all that can be checked before a lease is acquired. It waits for the backend no longer than it may wait for
// the lease: see runFlags.waitLimit.
func newRunner(ctx context.Context, a *cli.App, f *runFlags, argv []string, limit time.Duration) (*runner, error) {
	path, err := supervise.LookPath(argv[0])
	if err == nil {
		err = supervise.Check()
	}
	if err != nil {
		return nil, err
	}
	if f.busyCode < 0 || f.busyCode > 255 {
		return nil, fmt.Errorf("--busy-code %d: want 0 to 255: a shell sees only the last 8 bits", f.busyCode)
	}
	if f.ttl <= 0 || f.grace < 0 || f.atLeast < 0 {
		return nil, errors.New("--ttl, --grace and --at-least: want more than 0")
	}
	renewed := make(chan struct{}, 1)
	w := &runner{app: a, atLeast: f.atLeast, renewed: renewed, Command: supervise.Command{
		Path: path, Argv: argv, OnLoss: f.onLoss, Signals: supervise.NewSignals(), Renewed: renewed, Warn: a.Warn,
	}}
	w.Signals.Catch()
	err = w.Signals.CancelOnSignal(ctx, func(ctx context.Context) (err error) {
		w.Backend, err = a.OpenWithin(ctx, limit, leasing.Options{TTL: f.ttl, Logger: slog.New(cli.Handler{App: a})})
		return err
	})
	if err == nil {
		err = w.setGrace(f)
	}
	if err != nil && w.Backend != nil {
		err = errors.Join(err, w.Backend.CloseBoth())
	}
	return w, err
}

// setGrace makes room in the TTL for the grace: TERM is sent one grace period before trust ends, and
// renewals have to come before TERM.
func (w *runner) setGrace(f *runFlags) error {
	if w.OnLoss != supervise.LossTerm {
		return nil
	}
	ttl := f.ttl
	if maxTTL := w.Capabilities().MaxTTL; maxTTL > 0 {
		ttl = min(ttl, maxTTL)
	}
	w.Grace = cmp.Or(f.grace, min(5*time.Second, ttl/6))
	if w.Grace > ttl/2 {
		return fmt.Errorf("--grace %v: want at most half of the TTL, which is %v: the command gets TERM this long before the lease runs out", w.Grace, ttl)
	}
	const defaultFraction = 0.6 // of the time until TERM
	w.fraction = defaultFraction * (1 - float64(w.Grace)/float64(ttl))
	return nil
}

// acquire acquires the lease. A signal or the limit ends the wait for the lease.
func (w *runner) acquire(ctx context.Context, name string, limit time.Duration) (lease *leasing.Lease, err error) {
	manager := w.With(leasing.AcquireOptions{
		WaitLimit:     max(limit, 0),
		AtLeast:       w.atLeast,
		RenewFraction: w.fraction,
		Metadata:      map[string]string{"command": strings.ToValidUTF8(filepath.Base(w.Path), "?")},
		Observer: func(e leasing.Event) {
			if e.Kind == leasing.EventRenewed {
				select {
				case w.renewed <- struct{}{}:
				default:
				}
			}
		},
	})
	acquire := manager.Acquire
	if limit == 0 {
		acquire = manager.TryAcquire
	}
	err = w.Signals.CancelOnSignal(ctx, func(ctx context.Context) (err error) {
		if err = checkNested(ctx, manager, name); err == nil {
			lease, err = acquire(ctx, name)
		}
		if held, is := errors.AsType[*leasing.HeldError](err); is && isEnclosing(&held.Holder) {
			err = errNested(name)
		}
		return err
	})
	if err != nil && lease != nil {
		w.release(lease)
	}
	return lease, err
}

// environ returns the command's environment.
func (w *runner) environ(lease *leasing.Lease) []string {
	variables := map[string]string{
		"LEASING_NAME":  lease.Name(),
		"LEASING_TOKEN": strconv.FormatInt(lease.Token(), 10),
		"LEASING_ID":    lease.ID(),
		"LEASING_OWNER": lease.Owner(),
		nestedVariable:  strings.TrimSpace(os.Getenv(nestedVariable) + " " + leasing.FingerprintOf(lease.ID()).String()),
	}
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, set := variables[name]
		return set
	})
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		env = append(env, name+"="+variables[name])
	}
	return env
}

// release releases the lease, unless processes of the command are left.
func (w *runner) release(lease *leasing.Lease) {
	if w.ProcessesLeft {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cli.CloseTimeout)
	defer cancel()
	if err := lease.Release(ctx); err != nil && !errors.Is(err, leasing.ErrLost) {
		w.app.Warn("%s: the lease could not be released, and runs out: %s", lease.Name(), output.OneLine(err))
	}
}

// finish closes the backend. Signals stay caught, since the remaining work is bounded.
func (w *runner) finish() {
	if w.ProcessesLeft {
		return // closing would wait for the lease, which is not released
	}
	if err := w.Backend.CloseBoth(); err != nil {
		w.app.Warn("%s", output.OneLine(err))
	}
}
