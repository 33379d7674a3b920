package history

import (
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// kinds maps the events that are recorded to the kinds of entries.
var kinds = map[leasing.EventKind]abstractions.HistoryKind{
	leasing.EventAcquired: abstractions.HistoryAcquired,
	leasing.EventRenewed:  abstractions.HistoryRenewed,
	leasing.EventReleased: abstractions.HistoryReleased,
	leasing.EventLost:     abstractions.HistoryLost,
	leasing.EventBroken:   abstractions.HistoryBroken,
}

// entryOf returns the entry of an event, if the event is recorded.
func entryOf(e leasing.Event) (entry abstractions.NamedEntry, is bool) {
	kind, is := kinds[e.Kind]
	entry = abstractions.NamedEntry{Name: e.Name, HistoryEntry: abstractions.HistoryEntry{
		Time: e.Time.UTC().Truncate(time.Microsecond), Kind: kind, Fingerprint: e.Fingerprint, Owner: e.Owner, Token: e.Token, Actor: e.BrokenBy, Reason: e.BreakReason,
	}}
	switch {
	case e.Kind == leasing.EventLost:
		entry.Reason = string(e.Reason)
		if e.BreakReason != "" {
			entry.Reason += ": " + e.BreakReason
		}
	case e.Kind == leasing.EventReleased && e.Err != nil:
		entry.Reason = "the backend has not confirmed the release: " + e.Err.Error()
	}
	// Errors may quote any bytes, and databases refuse invalid text.
	entry.Reason = strings.ReplaceAll(strings.ToValidUTF8(entry.Reason, "\uFFFD"), "\x00", "\uFFFD")
	return entry, is
}
