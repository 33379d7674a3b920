package notify

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// The logger logs the first failure of a kind at once, and the number of repetitions later. The first pause is firstLogPause;
// each further pause is twice as long, up to lastLogPause. Without the pauses a stall of eight seconds with 220 leases makes
// 1,896 warnings.
const (
	firstLogPause = 10 * time.Second
	lastLogPause  = time.Minute
)

// logger is the observer that writes to the application's logger. Events that an operator should see are logged as warnings, and
// all others at debug level. The logger runs like any observer: a slow log does not delay leases. It gets one event at a time,
// so it does not need a lock.
type logger struct {
	to       *slog.Logger
	provider string
	// tickAfter makes observe receive a logTick after d.
	tickAfter func(d time.Duration) *time.Timer
	repeats   map[failureKind]*repeated
}

// failureKind distinguishes the failures that are counted separately.
type failureKind struct {
	event   abstractions.EventKind
	refused bool
}

// repeated are the failures of one kind that were not logged yet.
type repeated struct {
	count  int
	claims map[abstractions.Fingerprint]struct{} // that failed
	last   abstractions.Event
	pause  time.Duration
	until  time.Time // end of the pause, when the count is logged
	timer  *time.Timer
}

// logTick and logEnd are events for the logger alone: the end of one pause, and the end of all pauses.
const (
	logTick abstractions.EventKind = "log tick"
	logEnd  abstractions.EventKind = "log end"
)

func newLogger(to *slog.Logger, provider string) *logger {
	return &logger{to: to, provider: provider, repeats: map[failureKind]*repeated{}}
}

func (l *logger) observe(e abstractions.Event) {
	switch e.Kind {
	case logTick, logEnd:
		for _, r := range l.repeats {
			if e.Kind == logEnd || !time.Now().Before(r.until) {
				l.summarize(r, e.Kind == logEnd)
			}
		}
	case abstractions.EventRenewalFailed, abstractions.EventAcquireFailed:
		l.logFailure(e)
	default:
		l.log(e)
	}
}

// logFailure logs a failure, or counts it if another failure of its kind was logged a short while ago.
func (l *logger) logFailure(e abstractions.Event) {
	kind := failureKind{e.Kind, errors.Is(e.Err, abstractions.ErrDenied)}
	r := l.repeats[kind]
	if r == nil {
		r = &repeated{}
		l.repeats[kind] = r
	}
	now := time.Now()
	if r.count == 0 && !now.Before(r.until) {
		if now.Sub(r.until) > r.pause { // no failure of this kind for a whole pause
			r.pause = firstLogPause
		}
		r.until = now.Add(r.pause)
		if e.Coalesced > 1 {
			l.log(e, slog.Int("failures", e.Coalesced))
		} else {
			l.log(e)
		}
		return
	}
	if r.count == 0 {
		r.claims = map[abstractions.Fingerprint]struct{}{}
		r.timer = l.tickAfter(r.until.Sub(now))
	}
	r.count += e.Coalesced
	r.claims[e.Fingerprint] = struct{}{}
	r.last = e
}

// summarize logs the last of several failures, and their number.
func (l *logger) summarize(r *repeated, final bool) {
	if r.timer != nil && final {
		r.timer.Stop()
	}
	if r.count == 0 {
		return
	}
	l.log(r.last, slog.Int("failures", r.count), slog.Int("leases", len(r.claims)), slog.Duration("within", r.pause))
	r.count, r.claims = 0, nil
	r.pause = min(2*r.pause, lastLogPause)
	r.until = time.Now().Add(r.pause)
}

func (l *logger) log(e abstractions.Event, more ...slog.Attr) {
	attrs := []slog.Attr{slog.String("provider", l.provider)}
	add := func(attr slog.Attr) { // leaves out empty attributes
		if !attr.Value.Equal(slog.StringValue("")) && !attr.Value.Equal(slog.Int64Value(0)) {
			attrs = append(attrs, attr)
		}
	}
	level, text := slog.LevelWarn, "lease "+string(e.Kind)
	add(slog.String("name", e.Name))
	add(slog.Int64("token", e.Token))
	add(slog.String("fingerprint", e.Fingerprint.String()))
	add(slog.String("reason", string(e.Reason)))
	switch e.Kind {
	case abstractions.EventDropped:
		text = "events were dropped while the log hung"
		add(slog.Int("events", e.Coalesced))
	case abstractions.EventLost:
		add(slog.Time("last_renewal", e.LastRenewal))
	case abstractions.EventRenewalFailed:
		add(slog.Int("attempt", e.Attempt))
		if e.Remaining == abstractions.Infinite {
			add(slog.String("remaining", "infinite"))
		} else {
			add(slog.Duration("remaining", e.Remaining))
		}
		add(slog.Bool("will_retry", e.WillRetry))
	case abstractions.EventAcquireFailed:
		text = "an attempt to acquire failed"
		if errors.Is(e.Err, abstractions.ErrDenied) {
			text = "an attempt to acquire was refused: check the credentials and their permissions"
		}
		add(slog.Int("attempt", e.Attempt))
		add(slog.Bool("will_retry", e.WillRetry))
	case abstractions.EventBroken:
	default:
		if e.Err == nil {
			level = slog.LevelDebug
		}
	}
	add(slog.String("broken_by", e.BrokenBy))
	add(slog.String("break_reason", e.BreakReason))
	if e.Err != nil {
		add(slog.String("error", e.Err.Error()))
	}
	l.to.LogAttrs(context.Background(), level, "leasing: "+text, append(attrs, more...)...)
}
