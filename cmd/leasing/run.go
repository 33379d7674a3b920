package main

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
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
)

// runFlags are those of run and elect.
type runFlags struct {
	ttl, grace, atLeast time.Duration
	wait                string
	busyCode            int
	onLoss              onLoss
}

// onLoss is the action on the command when its lease ends.
type onLoss string

const (
	lossTerm   onLoss = "term"   // TERM, and KILL once the grace is over
	lossKill   onLoss = "kill"   // KILL at once
	lossIgnore onLoss = "ignore" // a word on standard error
)

func (o *onLoss) String() string { return string(*o) }
func (o *onLoss) Type() string   { return "term|kill|ignore" }

func (o *onLoss) Set(text string) error {
	switch *o = onLoss(text); *o {
	case lossTerm, lossKill, lossIgnore:
		return nil
	}
	return errors.New("want term, kill or ignore")
}

// add adds the flags to a command, which wants a name and another command.
func (f *runFlags) add(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) < 2 {
			return fmt.Errorf(`want NAME -- COMMAND; see "%s --help"`, cmd.CommandPath())
		}
		return nil
	}
	f.onLoss = lossTerm
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.DurationVar(&f.ttl, "ttl", 30*time.Second, "time for which the name stays taken if this machine dies")
	flags.Var(&f.onLoss, "on-loss", "action on the command when the lease is lost")
	flags.DurationVar(&f.grace, "grace", 0, "time from TERM to KILL; both are sent before the lease has run out (default 5s, at most a sixth of the TTL)")
}

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] NAME -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lease",
		Long: `Run takes the lease NAME, runs the command while it holds the lease, and releases the lease when the command
has ended. If another holder has the name, run exits with 75 (see --wait). With --wait it also waits
for a backend that can't be reached, and exits with 125 if the backend does not come back in time.

If the lease can't be renewed, the command and all its descendants get TERM while the lease is still
valid, and KILL before another holder can have the name. They also get KILL if leasing itself is killed
or stopped. When the command has ended, its descendants have a second to finish, and another second
after TERM. On Linux no descendant escapes, not even a daemon.

Signals are passed on to the command and its descendants. The exit code is the command's, and $LEASING_NAME,
$LEASING_TOKEN (the fencing token), $LEASING_ID and $LEASING_OWNER are in its environment.`,
		Example: `  leasing run nightly-report -- echo 'the only one'
  leasing run --wait 1m --ttl 10s deploy/web -- sh -c 'echo "token $LEASING_TOKEN"'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd.Context(), f, args[0], command(args[1:]))
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.wait, "wait", "0s", "time to wait if another holder has the name or the backend can't be reached, or forever")
	flags.DurationVar(&f.atLeast, "at-least", 0, "keep the name taken for this time, even if the command or leasing ends sooner, so that a machine with a slower clock finds the name taken")
	flags.IntVarP(&f.busyCode, "busy-code", "E", exitBusy, "exit code if another holder has the name; 0 also prints nothing")
	return cmd
}

// command returns the arguments after NAME. A flag before NAME ends at the first argument, and the
// "--" behind NAME is ours.
func command(args []string) []string {
	if len(args) > 1 && args[0] == "--" {
		return args[1:]
	}
	return args
}

// run runs one command under one lease.
func (a *app) run(ctx context.Context, f *runFlags, name string, argv []string) error {
	limit, err := f.waitLimit()
	if err != nil {
		return err
	}
	begin := time.Now()
	w, err := a.newWork(ctx, f, argv, limit)
	if err != nil {
		return err
	}
	defer w.close()
	limit = max(limit-time.Since(begin), min(limit, time.Second)) // which leaves some of it for the lease
	lease, err := w.acquire(ctx, name, limit)
	switch {
	case errors.Is(err, leasing.ErrHeld) && f.busyCode == 0: // cron sends mail for a word
		return nil
	case errors.Is(err, leasing.ErrHeld):
		return &exitError{f.busyCode, err}
	}
	if err != nil {
		return err
	}
	code, err := w.under(lease)
	w.release(lease)
	if code == 0 && err == nil {
		return nil
	}
	return &exitError{code, err}
}

// waitLimit returns the limit of the wait: 0 for a single attempt, and negative for no limit.
func (f *runFlags) waitLimit() (time.Duration, error) {
	if f.wait == "forever" {
		return -1, nil
	}
	limit, err := time.ParseDuration(f.wait)
	if err != nil || limit < 0 {
		return 0, fmt.Errorf(`--wait %q: want a time such as 30s, or forever`, f.wait)
	}
	return limit, nil
}

// work runs commands under leases of one manager.
type work struct {
	*backend
	app      *app
	path     string    // of the command
	argv     []string  // as typed
	ignored  signalSet // since before this process began
	onLoss   onLoss
	grace    time.Duration
	atLeast  time.Duration
	fraction float64 // of the TTL, to a renewal; 0 for the default
	signals  chan os.Signal
	renewed  chan struct{} // one event is enough: only the lease's state counts
	kept     bool          // processes of the command are left, so its lease runs out
	ended    os.Signal     // the last one that was passed on and ends leasing, too
}

// newWork checks all that can be checked before a lease is taken. It waits for the backend as long as for
// the lease: see runFlags.waitLimit.
func (a *app) newWork(ctx context.Context, f *runFlags, argv []string, limit time.Duration) (*work, error) {
	path, err := lookPath(argv[0])
	if err == nil {
		err = canSupervise()
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
	w := &work{app: a, path: path, argv: argv, onLoss: f.onLoss, atLeast: f.atLeast, signals: make(chan os.Signal, 16), renewed: make(chan struct{}, 1)}
	w.catchSignals()
	err = w.heeding(ctx, func(ctx context.Context) (err error) {
		w.backend, err = a.openWithin(ctx, limit, leasing.Options{TTL: f.ttl, Logger: slog.New(plainHandler{a})})
		return err
	})
	if err == nil {
		err = w.fit(f)
	}
	if err != nil && w.backend != nil {
		err = errors.Join(err, w.backend.close())
	}
	return w, err
}

// heeding calls a function whose context is canceled by a signal that ends leasing. In that case the signal is
// the error, whatever the function returns.
func (w *work) heeding(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, heard := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(heard)
		for {
			select {
			case s := <-w.signals:
				if ends(s) {
					cancel(&exitError{code: exitSignal + int(s.(syscall.Signal))})
					return
				}
			case <-over:
				return
			}
		}
	}()
	err := do(ctx)
	close(over)
	<-heard
	if by := (*exitError)(nil); errors.As(context.Cause(ctx), &by) {
		return by
	}
	return err
}

// fit makes room in the TTL for the grace: TERM is sent a grace before trust ends, and renewals have
// to come before TERM.
func (w *work) fit(f *runFlags) error {
	if w.onLoss != lossTerm {
		return nil
	}
	ttl := f.ttl
	if most := w.Capabilities().MaxTTL; most > 0 {
		ttl = min(ttl, most)
	}
	w.grace = cmp.Or(f.grace, min(5*time.Second, ttl/6))
	if w.grace > ttl/2 {
		return fmt.Errorf("--grace %v: want at most half of the TTL, which is %v: the command gets TERM this long before the lease runs out", w.grace, ttl)
	}
	const byDefault = 0.6 // of the time to the end
	w.fraction = byDefault * (1 - float64(w.grace)/float64(ttl))
	return nil
}

// acquire takes the lease, or ends as a signal or the limit says.
func (w *work) acquire(ctx context.Context, name string, limit time.Duration) (lease *leasing.Lease, err error) {
	manager := w.With(leasing.AcquireOptions{
		WaitLimit:     max(limit, 0),
		AtLeast:       w.atLeast,
		RenewFraction: w.fraction,
		Metadata:      map[string]string{"command": strings.ToValidUTF8(filepath.Base(w.path), "?")},
		Observer: func(e leasing.Event) {
			if e.Kind == leasing.EventRenewed {
				select {
				case w.renewed <- struct{}{}:
				default:
				}
			}
		},
	})
	ask := manager.Acquire
	if limit == 0 {
		ask = manager.TryAcquire
	}
	err = w.heeding(ctx, func(ctx context.Context) (err error) {
		if err = w.app.nested(ctx, manager, name); err == nil {
			lease, err = ask(ctx, name)
		}
		if held, is := errors.AsType[*leasing.HeldError](err); is && isUnder(&held.Holder) {
			err = errNested(name)
		}
		return err
	})
	if err != nil && lease != nil {
		w.release(lease)
	}
	return lease, err
}

// underVariable names the leases of the runs that this process is part of, by their fingerprints.
const underVariable = "LEASING_UNDER"

// environ is the command's environment.
func (w *work) environ(lease *leasing.Lease) []string {
	ours := map[string]string{
		"LEASING_NAME":  lease.Name(),
		"LEASING_TOKEN": strconv.FormatInt(lease.Token(), 10),
		"LEASING_ID":    lease.ID(),
		"LEASING_OWNER": lease.Owner(),
		underVariable:   strings.TrimSpace(os.Getenv(underVariable) + " " + leasing.FingerprintOf(lease.ID()).String()),
	}
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, set := ours[name]
		return set
	})
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		env = append(env, name+"="+ours[name])
	}
	return env
}

// nested returns an error if this process is part of a run that has the name: that run ends when this process has
// ended, so the process would wait for itself.
func (a *app) nested(ctx context.Context, m *leasing.Manager, name string) error {
	if os.Getenv(underVariable) == "" {
		return nil
	}
	r, err := m.Inspect(ctx, name)
	if err == nil && r.Held && isUnder(&r) {
		return errNested(name)
	}
	return nil // the request that follows reports what is wrong with the backend
}

// isUnder reports whether this command is part of a run that has the lease of r.
func isUnder(r *leasing.Record) bool {
	return slices.Contains(strings.Fields(os.Getenv(underVariable)), r.Fingerprint.String())
}

func errNested(name string) error {
	return &exitError{exitFailed, fmt.Errorf("%s: this command is part of the run that holds the lease, and would wait for itself", name)}
}

// pause waits for a time, until done is closed, or until a signal that ends leasing.
func (w *work) pause(d time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for w.ended == nil {
		select {
		case <-timer.C:
			return
		case <-done:
			return
		case s := <-w.signals:
			if ends(s) {
				w.ended = s
			}
		}
	}
}

// release gives the lease up, unless processes of the command are left.
func (w *work) release(lease *leasing.Lease) {
	if w.kept {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := lease.Release(ctx); err != nil && !errors.Is(err, leasing.ErrLost) {
		w.app.warn("%s: the lease could not be released, and runs out: %s", lease.Name(), oneLine(err))
	}
}

// close ends all. Signals stay caught, since the remaining work is bounded.
func (w *work) close() {
	if w.kept {
		return // it would wait for a holder that does not return
	}
	if err := w.backend.close(); err != nil {
		w.app.warn("%s", oneLine(err))
	}
}
