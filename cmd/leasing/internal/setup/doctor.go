// Package setup has the commands that check and prepare a backend.
package setup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/disk"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/supervise"
	"github.com/distributedleasing/leasing/open"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

// Doctor is the command that checks the backend.
func Doctor(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the backend: reach, rights, clock, latency",
		Long: `Doctor acquires, renews, breaks and releases a lease of its own, under a random name below leasing/doctor/. It lists
the checks that passed, the errors, and the command to run next, and exits with 1 if there are errors.`,
		Example: "  leasing doctor",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{app: a}
			d.examine(cmd.Context())
			return d.print()
		},
	}
}

// doctor collects findings.
type doctor struct {
	app      *cli.App
	findings []finding
	failure  error // the first error
}

// finding is one line. Its Verdict is "ok", "note", "wrong" or "next".
type finding struct {
	Verdict string `json:"verdict"`
	Check   string `json:"check"`
	Text    string `json:"text"`
}

func (d *doctor) ok(check, format string, args ...any) { d.add("ok", check, format, args...) }

func (d *doctor) note(check, format string, args ...any) { d.add("note", check, format, args...) }

func (d *doctor) add(verdict, check, format string, args ...any) {
	d.findings = append(d.findings, finding{verdict, check, fmt.Sprintf(format, args...)})
}

const (
	verdictWrong = "wrong"
	verdictNext  = "next"
)

// addError adds an error, with advice.
func (d *doctor) addError(check string, err error) {
	text := output.OneLine(err) + "."
	if own := advice(err); own != "" {
		text += " " + own
	}
	d.add(verdictWrong, check, "%s", text)
	if d.failure == nil {
		d.failure = err
	}
}

// advice returns advice for an error that has none of its own.
func advice(err error) string {
	switch {
	case errors.As(err, new(*providerkit.AdvisedError)), errors.As(err, new(*sqllease.SetupError)):
		return ""
	case errors.Is(err, leasing.ErrInvalid):
		return "Correct the URL, the config file or the flags."
	case errors.Is(err, leasing.ErrDenied):
		return "Check the user and password in the URL, and give the user the rights that the backend's page in docs/providers lists."
	case errors.Is(err, disk.ErrNetwork):
		return "Other hosts may see the file, and file locks may not exclude those hosts."
	case errors.Is(err, leasing.ErrNotSetUp):
		return `Create what is missing, or let leasing do it with create=true in the URL.`
	case errors.Is(err, leasing.ErrThrottled):
		return "The backend refuses requests for now: it is overloaded, or out of space or connections."
	case errors.Is(err, leasing.ErrUnavailable):
		return "Check that the server runs, that host, port and TLS in the URL are right, and that no firewall is in the way."
	case errors.Is(err, leasing.ErrLost), errors.Is(err, leasing.ErrHeld):
		return "Another application uses this name, or the backend has dropped the lease, as with an eviction policy or a failover to a replica."
	}
	return "See docs/cli.md."
}

// slowPing is the latency above which the backend is slow for the usual TTL of 30 s.
const (
	slowPing = 500 * time.Millisecond
	maxSkew  = time.Second
	probes   = 10
)

func (d *doctor) examine(ctx context.Context) {
	if err := supervise.Check(); err != nil {
		d.add(verdictWrong, "run", "%s. Mount /proc, or leasing run and elect end with 125", output.OneLine(err))
	}
	where, from, err := d.app.Where()
	defer func() { d.addNext(where, from, d.failure) }()
	if err != nil {
		d.addError("url", err)
		return
	}
	b, err := d.app.Open(ctx, leasing.Options{})
	if err != nil {
		d.addError("url", err)
		return
	}
	defer func() {
		if err := b.CloseBoth(); err != nil {
			d.addError("close", err)
		}
	}()
	d.ok("url", "%s://..., from %s", open.Scheme(where), from)
	caps := b.Capabilities()
	d.ok("backend", "%s; %s decides when a lease is over", caps.Provider, caps.Clock)
	if !d.latency(ctx, b) {
		return
	}
	name := "leasing/doctor/" + rand.Text()[:8]
	d.rights(ctx, b, name)
	d.abilities(ctx, b, name)
}

// latency measures pings, and reports whether they succeed.
func (d *doctor) latency(ctx context.Context, b *cli.Backend) bool {
	var times []time.Duration
	for range probes {
		h := b.Health(ctx)
		if h.Status == leasing.Unhealthy {
			err := providerkit.WithText(h.Error, leasing.ErrUnavailable)
			if _, inspectErr := b.Inspect(ctx, "leasing/doctor"); inspectErr != nil {
				err = inspectErr // h.Error is only a text, but this error has its class
			}
			d.addError("reach", err)
			return false
		}
		times = append(times, h.Ping)
	}
	slices.Sort(times)
	median, maximum := times[len(times)/2], times[len(times)-1]
	if text := fmt.Sprintf("%d pings: median %s, maximum %s", probes, output.Rounded(median), output.Rounded(maximum)); maximum > slowPing {
		d.note("latency", "%s. That is slow: use TTLs of %v or more", text, (60 * maximum).Round(time.Second))
	} else {
		d.ok("latency", "%s", text)
	}
	return true
}

// rights acquires, renews, inspects, breaks and releases a lease.
func (d *doctor) rights(ctx context.Context, b *cli.Backend, name string) {
	lease, err := b.TryAcquire(ctx, name)
	if err != nil {
		d.addError("acquire", err)
		return
	}
	before := time.Now()
	if err := lease.Renew(ctx); err != nil {
		d.addError("renew", err)
	}
	r, err := b.Inspect(ctx, name)
	switch {
	case err != nil:
		d.addError("inspect", err)
	case r.Fingerprint != leasing.FingerprintOf(lease.ID()) && !b.Capabilities().ReadsMayLag:
		d.addError("inspect", fmt.Errorf("%w: the backend shows %q as the holder of a lease just taken", leasing.ErrLost, r.Fingerprint))
	default:
		d.clock(r.Now, before, time.Now())
	}
	if _, err := b.Break(ctx, name, leasing.BreakOptions{IfToken: lease.Token(), Immediate: true, Reason: "leasing doctor"}); err != nil {
		d.addError("break", err)
	}
	if err := lease.Release(ctx); err != nil && !errors.Is(err, leasing.ErrLost) {
		d.addError("release", err)
	}
	again, err := b.TryAcquire(ctx, name)
	switch {
	case err != nil:
		d.addError("acquire again", err)
	case again.Token() <= lease.Token():
		d.addError("fence", fmt.Errorf("%w: token %d follows %d", leasing.ErrStale, again.Token(), lease.Token()))
	default:
		d.ok("rights", "acquire, renew, inspect, break and release work, and tokens rise")
	}
	if again != nil {
		if err := again.Release(ctx); err != nil {
			d.addError("release", err)
		}
	}
}

// clock compares the backend's clock with this machine's.
func (d *doctor) clock(theirs, before, after time.Time) {
	if theirs.IsZero() {
		d.note("clock", "the backend does not report its time")
		return
	}
	skew := time.Duration(0)
	if theirs.Before(before) {
		skew = theirs.Sub(before)
	} else if theirs.After(after) {
		skew = theirs.Sub(after)
	}
	if skew.Abs() > maxSkew {
		d.note("clock", "the backend's clock is %s off this machine's. Leases are not affected, but logs and timetables are: check NTP", output.Rounded(skew))
		return
	}
	d.ok("clock", "the backend's clock and this machine's agree within %s", output.Rounded(max(skew.Abs(), after.Sub(before))))
}

// abilities reports the abilities of the backend.
func (d *doctor) abilities(ctx context.Context, b *cli.Backend, name string) {
	caps := b.Capabilities()
	longest := "any"
	if caps.MaxTTL > 0 && caps.MaxTTL < 365*24*time.Hour {
		longest = caps.MaxTTL.String()
	}
	d.ok("ttl", "from %v to %s; a dead holder's lease is free at most %v after its TTL of 30 s", caps.MinTTL, longest, caps.Lateness.After(30*time.Second))
	if _, err := b.Records(ctx, name, true); errors.Is(err, leasing.ErrUnsupported) {
		d.note("list", "not supported by the backend: leasing ls and watch don't work")
	} else if err != nil {
		d.addError("list", err)
	}
	if _, ok := abstractions.As[abstractions.Waiter](b.Provider); !ok {
		d.note("waiting", "the backend sends no wake-ups: waiters poll")
	}
	if _, ok := abstractions.As[abstractions.HistoryReader](b.Provider); !ok {
		d.note("history", "not kept; SQL backends keep one with history=true in the URL")
	}
}

// print prints the findings.
func (d *doctor) print() error {
	err := output.All(&d.app.Printer, []string{"VERDICT", "CHECK", "FINDING"}, d.findings, func(f finding) []string {
		return []string{f.Verdict, f.Check, f.Text}
	})
	if err == nil && slices.ContainsFunc(d.findings, func(f finding) bool { return f.Verdict == verdictWrong }) {
		return &exit.Error{Code: exit.No}
	}
	return err
}
