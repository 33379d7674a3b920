package leasing

import (
	"context"
	"log/slog"
)

// logEvents is the observer behind Options.Logger: what an operator should
// know is a warning, the rest is for debugging. It runs like any observer, so
// a slow log delays no lease.
func logEvents(logger *slog.Logger, provider string) Observer {
	return func(e Event) {
		if e.Kind == EventDropped {
			logger.LogAttrs(context.Background(), slog.LevelWarn, "leasing: events were dropped while the log hung", slog.String("provider", provider), slog.Int("events", e.Coalesced))
			return
		}
		level := slog.LevelDebug
		attrs := []slog.Attr{slog.String("provider", provider), slog.String("name", e.Name), slog.Int64("token", e.Token)}
		if e.ID != "" {
			attrs = append(attrs, slog.String("id", e.ID))
		}
		switch e.Kind {
		case EventLost:
			level = slog.LevelWarn
			attrs = append(attrs, slog.String("reason", string(e.Reason)), slog.Time("last_renewal", e.LastRenewal))
			attrs = append(attrs, whoBroke(e)...)
		case EventRenewalFailed:
			level = slog.LevelWarn
			attrs = append(attrs, slog.Int("attempt", e.Attempt), slog.Duration("remaining", e.Remaining), slog.Bool("will_retry", e.WillRetry))
		case EventReleased:
			if e.Err != nil {
				level = slog.LevelWarn
			}
		case EventBroken:
			level = slog.LevelWarn
			attrs = append(attrs, whoBroke(e)...)
		}
		if e.Err != nil {
			attrs = append(attrs, slog.String("error", e.Err.Error()))
		}
		logger.LogAttrs(context.Background(), level, "leasing: lease "+string(e.Kind), attrs...)
	}
}

func whoBroke(e Event) (attrs []slog.Attr) {
	if e.BrokenBy != "" {
		attrs = append(attrs, slog.String("broken_by", e.BrokenBy))
	}
	if e.BreakReason != "" {
		attrs = append(attrs, slog.String("break_reason", e.BreakReason))
	}
	return attrs
}
