package history

import (
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// kinds are the events that are history.
var kinds = map[leasing.EventKind]abstractions.HistoryKind{
	leasing.EventAcquired: abstractions.HistoryAcquired,
	leasing.EventRenewed:  abstractions.HistoryRenewed,
	leasing.EventReleased: abstractions.HistoryReleased,
	leasing.EventLost:     abstractions.HistoryLost,
	leasing.EventBroken:   abstractions.HistoryBroken,
}

// entryOf is the entry of an event, if it has one.
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
		entry.Reason = "the backend could not be told: " + e.Err.Error()
	}
	// Errors may quote anything, and databases refuse what is no text.
	entry.Reason = strings.ReplaceAll(strings.ToValidUTF8(entry.Reason, "\uFFFD"), "\x00", "\uFFFD")
	return entry, is
}
